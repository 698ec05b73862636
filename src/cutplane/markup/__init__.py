"""HTML and SVG as text: elements, tables, charts. Knows nothing of fits."""

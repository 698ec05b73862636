"""Folders of memory-mapped arrays: data larger than the memory, converted once, fitted often."""

"""Model files: a fitted estimator as a safetensors file that loads without running code.

The file's metadata holds one JSON document: the model (format version, kind of estimator,
constructor parameters, classes, feature names, certificates) and a SHA-256 digest of the model and
the tensors, so that a damaged file is refused and never predicts something else. The digest tells
nothing about who wrote the file: the model is checked against a schema, and against itself.

:mod:`~cutplane.io.models.files` writes and reads; :mod:`~cutplane.io.models.schema` says what the
document may be, from the constructors' signatures and the estimators' descriptions; the
modules ``files`` of other families know the tensors of what is fitted to sequences of tokens, to
structures and to sequences of vectors.
Whatever does not fit together raises `~cutplane.io.models.schema.Malformed`.

Files of format 1 stay readable. A change that old readers would misread takes a new number.
"""

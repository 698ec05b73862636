"""Folders of memory-mapped arrays: data larger than the memory, converted once, fitted often."""

from cutplane.io.folders.conversion import FORMATS, convert
from cutplane.io.folders.folder import DataFolder, open_folder
from cutplane.io.folders.shards import FolderSource

__all__ = ["FORMATS", "DataFolder", "FolderSource", "convert", "open_folder"]

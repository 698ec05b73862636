"""Manifests as somebody with the key could write them."""

import json

import msgspec

from cutplane.checkpoints.store import Key, Manifest


def signed(document):
    """Return the text of a manifest, with a signature that is right if it can be read at all."""
    text = json.dumps(document).encode()
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.DecodeError:
        return text
    signature = Key().signature(manifest.signed_content)
    return msgspec.json.encode(msgspec.structs.replace(manifest, signature=signature))

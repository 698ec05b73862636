"""Files that came to harm."""

import random


def damage(path, seed, cut, flips):
    """Flip some bits of a file, of what is left of it if it is cut; where, the seed says."""
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    if cut:
        del content[chance.randrange(len(content)) :]
    for _ in range(min(flips, len(content))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)

"""Labels of the tokens of sentences: a conditional random field.

Features of a token are whatever a dictionary says. The labels of neighbors depend on each other,
which the field learns too.
"""

import cutplane as cp

SENTENCES = [
    ("the cat sees a dog", "D N V D N"),
    ("a dog sees the cat", "D N V D N"),
    ("the old dog sleeps", "D A N V"),
    ("a cat sleeps", "D N V"),
    ("the dog sees an old cat", "D N V D A N"),
    ("an old cat sees the dog", "D A N V D N"),
]


def features(word):
    return {"word=" + word: 1.0, "ends in " + word[-1]: 1.0, "long": float(len(word) > 3)}


X = [[features(word) for word in text.split()] for text, _ in SENTENCES]
y = [labels.split() for _, labels in SENTENCES]

tagger = cp.SequenceTagger("crf", lam=1e-2).fit(X, y)
new = "the old cat sees a bird"
print(list(zip(new.split(), tagger.predict([[features(w) for w in new.split()]])[0], strict=True)))
print(tagger.certificate_)

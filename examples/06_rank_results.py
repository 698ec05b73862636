"""Search results in order: a ranker for documents that belong to queries.

Documents of one query are compared with each other only. A query adds a number to the scores of all
its documents, which tells nothing about their order.
"""

import numpy as np

import cutplane as cp

rng = np.random.default_rng(0)
n_queries, n_documents = 150, 20
qid = np.repeat(np.arange(n_queries), n_documents)
X = rng.normal(size=(len(qid), 6))
signal = X @ [1.0, 0.5, -0.5, 0.0, 0.0, 0.0] + rng.normal(size=len(qid))
relevance = np.digitize(signal, [0.5, 1.5])  # 0, 1 or 2
train, test = qid < 100, qid >= 100

model = cp.LinearRanker(lam=1e-3).fit(X[train], relevance[train], qid=qid[train])
print(np.round(model.coef_, 2))
print(f"quality on other queries: {model.score(X[test], relevance[test], qid=qid[test]):.3f}")
print(model.certificate_)

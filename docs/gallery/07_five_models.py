"""
Five kinds of model at five sites
=================================

Each of five sites has a model of another kind. They agree on one threshold; every site turns its
model's probabilities into sets, looks at its coverage and writes a report.
"""

# %%
# A third of the digits trains the models, a third calibrates, divided unevenly, a third tests.

import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

import fedwqcp as fw
from fedwqcp import plot

rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
train, cal, test = map(np.sort, np.split(rng.permutation(len(y)), [599, 1198]))
models = {
    "north": LogisticRegression(max_iter=5000),
    "south": RandomForestClassifier(random_state=0),
    "east": KNeighborsClassifier(20),
    "west": GaussianNB(var_smoothing=0.1),
    "centre": MLPClassifier(max_iter=500, random_state=0),
}
chances = rng.dirichlet(np.ones(5), size=10)  # how likely a site holds a digit
owner = np.array([rng.choice(5, p=chances[digit]) for digit in y[cal]])
sites, tests = {}, {}
for place, (name, model) in enumerate(models.items()):
    model.fit(X[train], y[train])
    for parts, rows in ((sites, cal[owner == place]), (tests, test)):
        parts[name] = fw.Outputs(model.predict_proba(X[rows]), y[rows], ids=rows)

# %%
# One round. The release knows score, key, rule and class names, so a site predicts with its name
# alone.

digits = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
release = fw.calibrate(sites, method="guarded-median-cp", alpha=0.1, classes=digits, key="gallery")
print(release)
print(release.predict_set("west", tests["west"].values, ids=test))

# %%
# Coverage with its exact interval.

found = [release.measure(name, own.values, own.labels, ids=own.ids) for name, own in tests.items()]
plot.coverage(found, alpha=0.1)
plt.show()

# %%
# Sites were given unequal shares of the digits and are tested on all of them: their test points are
# not exchangeable with their calibration points, and the promise does not apply. Here
# South's and East's intervals lie above 0.9, and none lies below.
#
# The same as a page for people who do not read Python.

print(release.report(f"{tempfile.mkdtemp()}/report.html", tests).name)

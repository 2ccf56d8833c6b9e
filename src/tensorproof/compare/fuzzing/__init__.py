"""`tensorproof fuzz`: campaigns of generated tests over several frameworks.

discrepancy.py   one way in which a test came out differently than it should
oracles.py       `examine`: a test on all backends; refusals.py and results.py hold the oracles, referee.py the truth
localising.py    where a discrepancy begins; observing.py, reducing.py, change_rate.py serve it
finding.py       an explained discrepancy, and a finding
scripts.py       plain code that shows a finding; keras_scripts.py, onnx_scripts.py and literals.py write its parts
known_issues.py  findings that are hidden, until a version
campaign.py      `run_campaign`; journal.py remembers, tasks.py says what is done, executors.py and pool_process.py do it
reporting.py     a campaign's result as text, JSON and report
searching/       searches for inputs and weights
"""

"""Training scripts with known numerical defects, as their authors write them: what a search in running programs is tried on.

Each script runs by itself (`python benchmarks/exposed/torch_12_mlp.py --steps 500`) and needs numpy and its framework alone;
most runs end well. The scripts stand for programs of the GRIST benchmark and are written anew from facts on them.
`catalogue.py` says where each one fails. Lines are marked in the scripts: `# defect` is the line that is to be found, `#
also` is a further line that fails.
"""

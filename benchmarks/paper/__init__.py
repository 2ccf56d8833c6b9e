"""The tables of five papers, repeated by one command: `make paper`."""

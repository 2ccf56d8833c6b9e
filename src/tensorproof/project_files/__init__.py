"""What `tensorproof init` writes into a project: the commented configuration, and files for continuous integration."""

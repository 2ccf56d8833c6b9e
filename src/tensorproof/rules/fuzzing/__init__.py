"""Rules about frameworks that disagree, as `tensorproof fuzz` reports them: CMP2xx."""

def overridable(p,t): return p

"""Repairs: proposals for a finding, best first (stable rewrite, operand, precondition), each shown only with its proof."""

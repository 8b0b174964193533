"""Capsules: groups of units that carry poses, routed by agreement of their votes."""

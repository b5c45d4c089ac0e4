"""What a verdict must share with the oracle's to agree with it: as `berth judge --summary` compares them."""

from berth.judge.agreement import differences

__all__ = ["differences"]

"""Tidemark beside Paimon on Flink, Iceberg and Delta; see ``__main__``."""

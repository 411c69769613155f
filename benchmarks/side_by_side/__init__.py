"""Tidemark compared with Paimon on Flink, Iceberg and Delta; see ``__main__``."""

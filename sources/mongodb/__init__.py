"""MongoDB's documents as Debezium's connector for MongoDB writes them."""

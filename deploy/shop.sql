-- The shop that configs/shop.yaml follows. PostgreSQL's container runs this once, on an empty volume.
CREATE TABLE customers (
  id int PRIMARY KEY, email text NOT NULL UNIQUE, full_name text NOT NULL, city text, is_vip boolean NOT NULL,
  credit numeric(12, 2) NOT NULL, signed_up_on date NOT NULL, updated_at timestamptz NOT NULL, profile jsonb);
CREATE TABLE products (
  sku varchar(20) PRIMARY KEY, title text NOT NULL, price numeric(10, 2) NOT NULL, weight_kg double precision,
  stock int NOT NULL, is_listed boolean NOT NULL, updated_at timestamp NOT NULL);
CREATE TABLE orders (
  id bigint PRIMARY KEY, customer_id int NOT NULL REFERENCES customers (id), sku varchar(20) NOT NULL,
  quantity int NOT NULL, total numeric(10, 2) NOT NULL, currency char(3) NOT NULL, status varchar(16) NOT NULL,
  note text, due_on date, placed_at timestamptz NOT NULL, updated_at timestamp NOT NULL);
ALTER TABLE orders REPLICA IDENTITY FULL;

INSERT INTO customers
  SELECT n, 'c' || n || '@example.com', 'Customer ' || n, (ARRAY ['Köln', 'Porto', '東京', NULL]) [1 + n % 4], n % 10 = 0,
         (n * 7919 % 50000) / 100.0, DATE '2026-01-01' - n, now(), jsonb_build_object('n', n)
  FROM generate_series(1, 500) AS n;
INSERT INTO products
  SELECT 'SKU-' || lpad(n::text, 5, '0'), 'Product ' || n, (199 + n * 613 % 90000) / 100.0, n / 8.0, 100 + n, true, now()
  FROM generate_series(1, 100) AS n;
INSERT INTO orders
  SELECT 100000 + n, 1 + n % 500, 'SKU-' || lpad((1 + n % 100)::text, 5, '0'), 1 + n % 4, (n * 31 % 100000) / 100.0, 'EUR',
         'new', NULL, NULL, now(), now()
  FROM generate_series(1, 5000) AS n;

"""Count what happens, and show it to Prometheus.

Is: the catalogue of all metrics, the fleet's totals as the exporter shows them, and what a process
shows of itself. Is not: dashboards and alerts (`compose/`), nor the counting of calls, which the
ledger's scripts do. Above: workers, clients, the CLI. Below: `toolrail.ledger`, prometheus_client.
"""

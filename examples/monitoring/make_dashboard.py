"""Writes grafana-dashboard.json beside this file: python3 make_dashboard.py"""

from __future__ import annotations

import json
from pathlib import Path

# Title, unit, and (query, legend) of each panel, two in a row.
PANELS: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("Samples a second", "short", [("rate(paceline_committed_samples_total[1m])", "{{instance}}")]),
    ("Progress", "percentunit", [("paceline_committed_samples_total / paceline_planned_samples", "{{instance}}")]),
    ("Loss", "short", [("paceline_training_loss", "training"), ("paceline_evaluation_loss", "test")]),
    ("Test accuracy", "percentunit", [("paceline_evaluation_accuracy_ratio", "{{instance}}")]),
    ("Who waits, share of a device's time", "percentunit",
     # A wait counts at its end, and a long one for more than the minute.
     [('clamp_max(sum by (device) (rate(paceline_device_seconds_total{cause="waiting"}[5m])), 1)', "{{device}}")]),
    ("Who is waited for", "short", [("rate(paceline_waited_for_seconds_total[1m])", "{{device}}")]),
    ("Where the time goes", "percentunit",
     [("sum by (cause) (rate(paceline_device_seconds_total[1m]))"
       " / scalar(sum(rate(paceline_device_seconds_total[1m])))", "{{cause}}")]),
    ("Speed of each device against its past", "percentunit", [("paceline_device_speed_ratio", "{{device}}")]),
    ("Staleness (95th percentile, in commits)", "short",
     [("histogram_quantile(0.95, sum by (le) (rate(paceline_staleness_commits_bucket[5m])))", "p95")]),
    ("Update on the servers", "s",
     [("rate(paceline_update_seconds_sum[1m]) / rate(paceline_update_seconds_count[1m])", "server {{server}}")]),
    ("Live replicas", "short", [("paceline_live_replicas", "{{instance}}")]),
    ("Restarts, and replicas that left", "short",
     [("sum by (reason) (paceline_restarts_total)", "restart: {{reason}}"),
      ("sum by (reason) (paceline_left_replicas_total)", "left: {{reason}}")]),
    ("Between hosts", "Bps",
     [("rate(paceline_link_sent_bytes_total[1m])", "{{from}} to {{to}}: {{kind}}")]),
    ("Memory", "bytes", [("paceline_process_resident_memory_bytes", "{{process}}")]),
]


def panel(number: int, title: str, unit: str, queries: list[tuple[str, str]]) -> dict[str, object]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(65 + i), "expr": query, "legendFormat": legend} for i, (query, legend) in enumerate(queries)
        ],
    }


def main() -> None:
    dashboard = {
        "title": "Paceline",
        "uid": "paceline",
        "schemaVersion": 38,
        "refresh": "5s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {
            "list": [{"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]
        },
        "panels": [panel(i, *one) for i, one in enumerate(PANELS)],
    }
    Path(__file__).with_name("grafana-dashboard.json").write_text(json.dumps(dashboard, indent=1) + "\n")


if __name__ == "__main__":
    main()

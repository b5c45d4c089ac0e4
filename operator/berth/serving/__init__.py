"""What Berth serves over HTTP: health to every client, the rest to users whom the API server grants the right.

listening         addresses, certificates, certified_endpoint, listener (limits), responses, server (the thread)
requests          pages (the paths), authorizer and review_cache (who may read them), bridge (to the scheduler's loop)
what is served    health, loop_watchdog, configz, metrics from metric_table, logs
"""

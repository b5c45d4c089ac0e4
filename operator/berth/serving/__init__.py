"""What Berth shows of itself over HTTP: health to everybody, the rest to whoever the API server gives the right."""

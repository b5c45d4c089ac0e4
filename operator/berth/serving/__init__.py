"""What Berth shows of itself over HTTP, on the loopback interface: health and metrics."""

-- Makes wrk end with one line that a program reads: requests, errors, duration in µs, then the latencies in µs
-- at p50, p99 and the worst.
done = function(summary, latency, requests)
  local e = summary.errors
  local errors = e.connect + e.read + e.write + e.status + e.timeout
  io.write(string.format("tenon-bench requests=%d errors=%d duration_us=%d p50_us=%d p99_us=%d max_us=%d\n",
    summary.requests, errors, summary.duration, latency:percentile(50), latency:percentile(99), latency.max))
end

-- Arguments: a path, the number of headers to add, the number of bytes of JSON to send.
init = function(args)
  wrk.path = args[1]
  for i = 1, tonumber(args[2]) do
    wrk.headers[string.format("x-echo-%d", i)] = string.format("the value of header %d", i)
  end
  local size = tonumber(args[3])
  if size > 0 then
    local item = '{"id":4711,"name":"A thing","price":99.5,"tags":["new","gift"],"sold":false}'
    wrk.method = "POST"
    wrk.headers["content-type"] = "application/json"
    wrk.body = "[" .. string.rep(item .. ",", math.floor(size / (#item + 1)) - 1) .. item .. "]"
  end
end

-- Prints a last line for a program: the numbers of requests and errors, the duration in µs, and the
-- latencies p50, p99 and maximum in µs.
done = function(summary, latency, requests)
  local e = summary.errors
  local errors = e.connect + e.read + e.write + e.status + e.timeout
  io.write(string.format("tenon-bench requests=%d errors=%d duration_us=%d p50_us=%d p99_us=%d max_us=%d\n",
    summary.requests, errors, summary.duration, latency:percentile(50), latency:percentile(99), latency.max))
end

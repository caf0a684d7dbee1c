# SPDX-License-Identifier: BSD-3-Clause
# ruby-redis on kvgate, for strangers.sh: strangers.rb PORT
require "redis"

def same(got, want)
  abort "got #{got.inspect}, not #{want.inspect}" unless got == want
end

r = Redis.new(host: "127.0.0.1", port: ARGV[0].to_i)
same r.ping, "PONG"
r.flushdb
same r.set("a", "1", ex: 100), "OK"
same r.get("a"), "1"
same r.get("none"), nil
same r.set("a", "2", nx: true), false
same r.incrby("n", 5), 5
same r.mget("a", "none", "n"), ["1", nil, "5"]
same r.pipelined { |p| p.set("b", "2"); p.get("b"); p.del("a") }, ["OK", "2", 1]
same r.scan_each.to_a.sort, %w[b n]
same r.getdel("b"), "2"
same (begin r.rename("n", "m") rescue $!.class end), Redis::CommandError

<?php
// SPDX-License-Identifier: BSD-3-Clause
// php-redis on kvgate, for strangers.sh: strangers.php PORT
function same($got, $want) {
	if ($got !== $want) {
		fwrite(STDERR, 'got ' . var_export($got, true) . ', not ' . var_export($want, true) . "\n");
		exit(1);
	}
}
$r = new Redis();
same($r->connect('127.0.0.1', (int)$argv[1]), true);
same($r->flushDB(), true);
same($r->set('a', "1\0", 100), true);
same($r->get('a'), "1\0");
same($r->ttl('a') > 90, true);
same($r->get('none'), false);
same($r->setnx('a', '2'), false);
same($r->incrBy('n', 5), 5);
same($r->mget(['a', 'none', 'n']), ["1\0", false, '5']);
same($r->pipeline()->set('b', '2')->get('b')->del('a')->exec(), [true, '2', 1]);
// More keys than one part of the index holds, so that cursors lie in all of its range.
foreach (array_chunk(range(1, 20000), 1000) as $some)
	same($r->mset(array_fill_keys(array_map(fn($i) => "key:$i", $some), 'x')), true);
$cursor = null;
$keys = [];
$calls = 0;
do { // An answer may be empty before the end.
	$keys = array_merge($keys, $r->scan($cursor, 'key:*', 1000));
	same(++$calls < 20000, true);
} while ($cursor > 0);
same(count($keys), 20000);
same(count(array_unique($keys)), 20000);

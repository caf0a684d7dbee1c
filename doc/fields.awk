# SPDX-License-Identifier: BSD-3-Clause
# Put the fields of structs into a man page, with their comments: reads the header, then the page,
# and prints the page. A line "@FIELDS farkv_stats@" becomes an item for each field of struct
# farkv_stats after `size`. In the header /**< ... */ follows the field it describes, /** ... */
# precedes it, and any other comment is for the fields after it.

# The first of two files is the header.
FNR == NR {
	if (/^struct [a-z_]+ \{$/)
		inside = $2
	else if (/^\};/)
		inside = ""
	else if (inside)
		text[inside] = text[inside] " " $0
	next
}
/^@FIELDS [a-z_]+@$/ {
	name = substr($2, 1, length($2) - 1)
	if (!(name in text)) {
		print FILENAME ": there is no struct " name > "/dev/stderr"
		exit 1
	}
	items(text[name])
	next
}
{ print }

function plain(s) {
	gsub(/[ \t]+/, " ", s)
	sub(/^ /, "", s)
	sub(/ $/, "", s)
	return s
}

# A line of text that man(7) takes as such.
function shown(s) {
	gsub(/`/, "", s)
	return "\\&" plain(s)
}

# "uint64_t hits" or "char name[64]"
function item(field,    name, tail) {
	name = field
	tail = ""
	if (match(name, /\[.*/)) {
		tail = " " substr(name, RSTART)
		name = substr(name, 1, RSTART - 1)
	}
	match(name, /[a-z_0-9]+$/)
	print ".TP"
	print ".BI \"" substr(name, 1, RSTART - 1) "\" " substr(name, RSTART) tail
}

function items(s,    comment, before, at) {
	before = ""
	while ((s = plain(s)) != "") {
		if (s !~ /^\/\*/) {
			at = index(s, ";")
			field = substr(s, 1, at - 1)
			s = substr(s, at + 1)
			if (field == "size_t size")
				continue
			item(field)
			if (before)
				print shown(before)
			before = ""
			continue
		}
		at = index(s, "*/")
		comment = substr(s, 3, at - 3)
		s = substr(s, at + 2)
		if (comment ~ /^\*</) {
			if (field != "size_t size")
				print shown(substr(comment, 3))
		} else if (comment ~ /^\*/)
			before = substr(comment, 2)
		else
			print ".PD\n.PP\n" shown(comment) "\n.PD 0"
	}
}

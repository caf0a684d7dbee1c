/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "completion.h"

#include <string.h>

#include <farkv.h>

#include "err.h"

/* What the shell completes as the argument of an option. */
enum offer { OFFER_NOTHING, OFFER_CHOICES, OFFER_FILES, OFFER_USERS };

static enum offer offer_for(const struct opt *o)
{
	if (o->type == OPT_ENUM)
		return OFFER_CHOICES;
	if (!o->metavar)
		return OFFER_NOTHING;
	if (strcmp(o->metavar, "USER") == 0)
		return OFFER_USERS;
	/* An ADDRESS may be a socket's path. */
	return (o->flags & OPT_PATH) || strstr(o->metavar, "FILE") || strstr(o->metavar, "PATH") ||
			       strcmp(o->metavar, "ADDRESS") == 0
		       ? OFFER_FILES
		       : OFFER_NOTHING;
}

static bool is_hidden(const struct opt *o)
{
	return o->flags & OPT_HIDDEN;
}

static void print_choices(const struct opt *o, FILE *out)
{
	for (size_t i = 0; o->choices[i]; i++)
		fprintf(out, "%s%s", i ? " " : "", o->choices[i]);
}

static void print_words(const char *const *words, FILE *out)
{
	for (size_t i = 0; words && words[i]; i++)
		fprintf(out, "%s%s", i ? " " : "", words[i]);
}

/* ---- bash ---------------------------------------------------------------------------- */

static void bash_argument(const struct opt *o, FILE *out)
{
	enum offer offer = offer_for(o);

	if (is_hidden(o) || offer == OFFER_NOTHING)
		return;
	fputc('\t', out);
	if (o->letter)
		fprintf(out, "-%c | ", o->letter);
	fprintf(out, "--%s)\n\t\tmapfile -t COMPREPLY < <(compgen ", o->name);
	if (offer == OFFER_CHOICES) {
		fputs("-W \"", out);
		print_choices(o, out);
		fputs("\"", out);
	} else {
		fputs(offer == OFFER_USERS ? "-u" : "-f", out);
	}
	fputs(" -- \"$cur\")\n\t\treturn\n\t\t;;\n", out);
}

static void print_bash(const struct opts_spec *s, const char *const *words, FILE *out)
{
	fprintf(out,
		"# Completion of %s for bash.\n"
		"_%s()\n{\n"
		"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
		"\tlocal word words=\"",
		s->program, s->program);
	print_words(words, out);
	fputs("\" options=\"", out);
	for (size_t i = 0; i < s->n_opts; i++)
		if (!is_hidden(&s->opts[i]))
			fprintf(out, "--%s ", s->opts[i].name);
	fputs("\"\n\n"
	      "\tCOMPREPLY=()\n"
	      "\t# --option=argument is three words.\n"
	      "\t[[ $prev != = ]] || prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
	      "\t[[ $cur != = ]] || cur=\n"
	      "\tcase $prev in\n",
	      out);
	for (size_t i = 0; i < s->n_opts; i++)
		bash_argument(&s->opts[i], out);
	fprintf(out,
		"\tesac\n"
		"\tif [[ $cur == -* || -z $words ]]; then\n"
		"\t\tmapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
		"\t\treturn\n"
		"\tfi\n"
		"\tfor word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
		"\t\t[[ \" $words \" != *\" $word \"* ]] || words=\n"
		"\tdone\n"
		"\tif [[ -n $words ]]; then\n"
		"\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
		"\telse\n"
		"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
		"\tfi\n"
		"}\n"
		"complete -F _%s %s\n",
		s->program, s->program);
}

/* ---- zsh ------------------------------------------------------------------------------ */

/* Print `text` within the single quotes of a specification of _arguments. */
static void zsh_text(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '\'') {
			fputs("'\\''", out);
			continue;
		}
		if (strchr("[]:\\", *text))
			fputc('\\', out);
		fputc(*text, out);
	}
}

static void zsh_option(const struct opt *o, FILE *out)
{
	bool again = o->type == OPT_LIST || o->type == OPT_COUNT;
	const char *equals = o->metavar ? "=" : "";

	if (is_hidden(o))
		return;
	fputs(" \\\n\t", out);
	if (o->letter && again)
		fprintf(out, "'*'{-%c,--%s%s}'", o->letter, o->name, equals);
	else if (o->letter)
		fprintf(out, "'(-%c --%s)'{-%c,--%s%s}'", o->letter, o->name, o->letter, o->name,
			equals);
	else
		fprintf(out, "'%s--%s%s", again ? "*" : "", o->name, equals);
	fputc('[', out);
	zsh_text(o->help, out);
	fputc(']', out);
	if (o->metavar) {
		fputs(o->flags & OPT_OPTIONAL_ARG ? "::" : ":", out);
		zsh_text(o->metavar, out);
		fputc(':', out);
	}
	switch (offer_for(o)) {
	case OFFER_CHOICES:
		fputc('(', out);
		print_choices(o, out);
		fputc(')', out);
		break;
	case OFFER_FILES:
		fputs("_files", out);
		break;
	case OFFER_USERS:
		fputs("_users", out);
		break;
	case OFFER_NOTHING:
		break;
	}
	fputc('\'', out);
}

static void print_zsh(const struct opts_spec *s, const char *const *words, FILE *out)
{
	fprintf(out, "#compdef %s\n# Completion of %s for zsh.\n_arguments -s", s->program,
		s->program);
	for (size_t i = 0; i < s->n_opts; i++)
		zsh_option(&s->opts[i], out);
	if (words) {
		fputs(" \\\n\t'1:command:(", out);
		print_words(words, out);
		fputs(")' \\\n\t'*:argument:_files'", out);
	}
	fputc('\n', out);
}

int completion_print(const struct opts_spec *s, const char *const *words, const char *shell,
		     FILE *out)
{
	if (strcmp(shell, "bash") == 0)
		print_bash(s, words, out);
	else if (strcmp(shell, "zsh") == 0)
		print_zsh(s, words, out);
	else
		return err_set(FARKV_EINVAL, "completion: '%s' is neither bash nor zsh", shell);
	return 0;
}

	switch (t->back) {
	default: Uerror("bad return move");
	case  0: goto R999; /* nothing to undo */

		 /* PROC :init: */

	case 3: // STATE 4
		;
		now.created[0] = trpt->bup.ovals[3];
		now.current[0] = trpt->bup.ovals[2];
		now.slot[0] = trpt->bup.ovals[1];
		now.block[5] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 4);
		goto R999;

	case 4: // STATE 5
		;
		;
		delproc(0, now._nr_pr-1);
		;
		goto R999;

	case 5: // STATE 6
		;
		;
		delproc(0, now._nr_pr-1);
		;
		goto R999;

	case 6: // STATE 7
		;
		;
		delproc(0, now._nr_pr-1);
		;
		goto R999;

	case 7: // STATE 9
		;
		p_restor(II);
		;
		;
		goto R999;

		 /* PROC client */
	case 8: // STATE 7
		sv_restor();
		goto R999;

	case 9: // STATE 14
		;
		((P0 *)_this)->ops = trpt->bup.oval;
		;
		goto R999;

	case 10: // STATE 14
		;
		((P0 *)_this)->ops = trpt->bup.oval;
		;
		goto R999;

	case 11: // STATE 14
		;
		((P0 *)_this)->ops = trpt->bup.oval;
		;
		goto R999;

	case 12: // STATE 15
		;
		((P0 *)_this)->k = trpt->bup.oval;
		;
		goto R999;

	case 13: // STATE 16
		;
		((P0 *)_this)->k = trpt->bup.oval;
		;
		goto R999;

	case 14: // STATE 20
		;
		((P0 *)_this)->kind = trpt->bup.oval;
		;
		goto R999;

	case 15: // STATE 22
		;
		((P0 *)_this)->kind = trpt->bup.oval;
		;
		goto R999;

	case 16: // STATE 24
		;
		((P0 *)_this)->kind = trpt->bup.oval;
		;
		goto R999;

	case 17: // STATE 26
		;
		((P0 *)_this)->kind = trpt->bup.oval;
		;
		goto R999;

	case 18: // STATE 28
		;
		((P0 *)_this)->kind = trpt->bup.oval;
		;
		goto R999;
	case 19: // STATE 69
		sv_restor();
		goto R999;

	case 20: // STATE 70
		;
	/* 1 */	((P0 *)_this)->word = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->kind = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 21: // STATE 77
		;
		((P0 *)_this)->img[0] = trpt->bup.ovals[2];
		now.late[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.ovals[1];
		now.inside[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;

	case 22: // STATE 79
		;
		((P0 *)_this)->img[1] = trpt->bup.oval;
		;
		goto R999;

	case 23: // STATE 80
		;
		((P0 *)_this)->i = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 25: // STATE 86
		;
		((P0 *)_this)->w = trpt->bup.oval;
		;
		goto R999;

	case 26: // STATE 87
		;
	/* 0 */	((P0 *)_this)->w = trpt->bup.oval;
		;
		;
		goto R999;

	case 27: // STATE 90
		;
		((P0 *)_this)->i = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->w = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 28: // STATE 95
		;
		((P0 *)_this)->c1 = trpt->bup.oval;
		;
		goto R999;

	case 29: // STATE 96
		;
		((P0 *)_this)->c2 = trpt->bup.oval;
		;
		goto R999;

	case 30: // STATE 97
		;
	/* 1 */	((P0 *)_this)->w = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->i = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;
;
		;
		
	case 32: // STATE 104
		;
	/* 1 */	((P0 *)_this)->w = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->c2 = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 33: // STATE 109
		;
		now.inside[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 35: // STATE 112
		;
		now.inside[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.oval;
		;
		goto R999;

	case 36: // STATE 113
		;
		((P0 *)_this)->i = trpt->bup.oval;
		;
		goto R999;

	case 37: // STATE 118
		;
		((P0 *)_this)->inserting = trpt->bup.oval;
		;
		goto R999;

	case 38: // STATE 119
		;
	/* 0 */	((P0 *)_this)->kind = trpt->bup.oval;
		;
		;
		goto R999;
;
		;
		
	case 40: // STATE 122
		;
	/* 1 */	((P0 *)_this)->w = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->kind = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;
;
		;
		
	case 42: // STATE 125
		;
	/* 1 */	((P0 *)_this)->w = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->kind = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;
;
		;
		
	case 44: // STATE 132
		;
		now.inside[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.oval;
		;
		goto R999;

	case 45: // STATE 136
		;
		((P0 *)_this)->w = trpt->bup.ovals[1];
		((P0 *)_this)->inserting = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;
;
		;
		
	case 47: // STATE 142
		;
		now.inside[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.oval;
		;
		goto R999;

	case 48: // STATE 143
		;
		((P0 *)_this)->found = trpt->bup.oval;
		;
		goto R999;

	case 49: // STATE 148
		;
		now.deleted[ Index(((P0 *)_this)->k, 2) ] = trpt->bup.ovals[4];
		now.blind_writes[ Index(((P0 *)_this)->k, 2) ] = trpt->bup.ovals[3];
		now.slot[ Index(((P0 *)_this)->i, 2) ] = trpt->bup.ovals[2];
	/* 1 */	((P0 *)_this)->kind = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->found = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 5);
		goto R999;

	case 50: // STATE 151
		;
		((P0 *)_this)->n = trpt->bup.ovals[1];
		now.current[ Index(((P0 *)_this)->k, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;
;
		;
		
	case 52: // STATE 158
		;
		((P0 *)_this)->n = trpt->bup.ovals[1];
		now.seen[ Index(((P0 *)_this)->n, 3) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 53: // STATE 158
		;
		((P0 *)_this)->n = trpt->bup.oval;
		;
		goto R999;

	case 54: // STATE 164
		;
		((P0 *)_this)->n = trpt->bup.oval;
		;
		goto R999;

	case 55: // STATE 172
		;
		now.created[ Index(((P0 *)_this)->k, 2) ] = trpt->bup.ovals[3];
		now.blind_writes[ Index(((P0 *)_this)->k, 2) ] = trpt->bup.ovals[2];
		now.slot[ Index(((P0 *)_this)->i, 2) ] = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->found = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 4);
		goto R999;

	case 56: // STATE 174
		;
		((P0 *)_this)->n = trpt->bup.ovals[1];
		now.current[ Index(((P0 *)_this)->k, 2) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;
;
		;
		
	case 58: // STATE 181
		;
		((P0 *)_this)->n = trpt->bup.ovals[1];
		now.seen[ Index(((P0 *)_this)->n, 3) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 59: // STATE 181
		;
		((P0 *)_this)->n = trpt->bup.oval;
		;
		goto R999;

	case 60: // STATE 189
		;
		((P0 *)_this)->mine = trpt->bup.ovals[1];
		((P0 *)_this)->n = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 61: // STATE 190
		;
	/* 0 */	((P0 *)_this)->inserting = trpt->bup.oval;
		;
		;
		goto R999;

	case 62: // STATE 191
		;
		((P0 *)_this)->n = trpt->bup.oval;
		;
		goto R999;

	case 63: // STATE 194
		;
		((P0 *)_this)->n = trpt->bup.oval;
		;
		goto R999;

	case 64: // STATE 200
		;
		((P0 *)_this)->n = trpt->bup.oval;
		;
		goto R999;

	case 65: // STATE 204
		;
		((P0 *)_this)->limbo_inc = trpt->bup.ovals[1];
		((P0 *)_this)->limbo = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 66: // STATE 207
		;
		((P0 *)_this)->limbo_inc = trpt->bup.ovals[2];
		((P0 *)_this)->limbo = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->limbo_inc = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;
;
		
	case 67: // STATE 214
		goto R999;

	case 68: // STATE 221
		;
		((P0 *)_this)->inserting = trpt->bup.ovals[2];
		((P0 *)_this)->img[ Index(((P0 *)_this)->i, 2) ] = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->inserting = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 3);
		goto R999;
	case 69: // STATE 224
		sv_restor();
		goto R999;

	case 70: // STATE 229
		;
	/* 1 */	((P0 *)_this)->found = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->kind = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 71: // STATE 231
		;
	/* 1 */	((P0 *)_this)->found = trpt->bup.ovals[1];
	/* 0 */	((P0 *)_this)->kind = trpt->bup.ovals[0];
		;
		;
		ungrab_ints(trpt->bup.ovals, 2);
		goto R999;

	case 72: // STATE 234
		;
		((P0 *)_this)->w = trpt->bup.oval;
		;
		goto R999;
;
		;
		
	case 74: // STATE 252
		;
		((P0 *)_this)->inserting = trpt->bup.ovals[13];
		((P0 *)_this)->img[1] = trpt->bup.ovals[12];
		((P0 *)_this)->img[0] = trpt->bup.ovals[11];
		((P0 *)_this)->i = trpt->bup.ovals[10];
		((P0 *)_this)->value = trpt->bup.ovals[9];
		((P0 *)_this)->word = trpt->bup.ovals[8];
		((P0 *)_this)->found = trpt->bup.ovals[7];
		((P0 *)_this)->c2 = trpt->bup.ovals[6];
		((P0 *)_this)->c1 = trpt->bup.ovals[5];
		((P0 *)_this)->w = trpt->bup.ovals[4];
		now.seen[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.ovals[3];
		now.late[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.ovals[2];
		now.inside[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.ovals[1];
		now.asked[ Index(((P0 *)_this)->id, 3) ] = trpt->bup.ovals[0];
		;
		ungrab_ints(trpt->bup.ovals, 14);
		goto R999;

	case 75: // STATE 256
		;
		p_restor(II);
		;
		;
		goto R999;
	}


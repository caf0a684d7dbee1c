#define rand	pan_rand
#define pthread_equal(a,b)	((a)==(b))
#if defined(HAS_CODE) && defined(VERBOSE)
	#ifdef BFS_PAR
		bfs_printf("Pr: %d Tr: %d\n", II, t->forw);
	#else
		cpu_printf("Pr: %d Tr: %d\n", II, t->forw);
	#endif
#endif
	switch (t->forw) {
	default: Uerror("bad forward move");
	case 0:	/* if without executable clauses */
		continue;
	case 1: /* generic 'goto' or 'skip' */
		IfNotBlocked
		_m = 3; goto P999;
	case 2: /* generic 'else' */
		IfNotBlocked
		if (trpt->o_pm&1) continue;
		_m = 3; goto P999;

		 /* PROC :init: */
	case 3: // STATE 1 - slot.pml:413 - [block[5] = ((7|(0<<3))|(0<<4))] (0:5:4 - 1)
		IfNotBlocked
		reached[1][1] = 1;
		(trpt+1)->bup.ovals = grab_ints(4);
		(trpt+1)->bup.ovals[0] = ((int)now.block[5]);
		now.block[5] = ((7|(0<<3))|(0<<4));
#ifdef VAR_RANGES
		logval("block[5]", ((int)now.block[5]));
#endif
		;
		/* merge: slot[0] = (((5|(0<<3))|(0<<5))|64)(5, 2, 5) */
		reached[1][2] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.slot[0]);
		now.slot[0] = (((5|(0<<3))|(0<<5))|64);
#ifdef VAR_RANGES
		logval("slot[0]", ((int)now.slot[0]));
#endif
		;
		/* merge: current[0] = 7(5, 3, 5) */
		reached[1][3] = 1;
		(trpt+1)->bup.ovals[2] = ((int)now.current[0]);
		now.current[0] = 7;
#ifdef VAR_RANGES
		logval("current[0]", ((int)now.current[0]));
#endif
		;
		/* merge: created[0] = 1(5, 4, 5) */
		reached[1][4] = 1;
		(trpt+1)->bup.ovals[3] = ((int)now.created[0]);
		now.created[0] = 1;
#ifdef VAR_RANGES
		logval("created[0]", ((int)now.created[0]));
#endif
		;
		_m = 3; goto P999; /* 3 */
	case 4: // STATE 5 - slot.pml:417 - [(run client(0))] (0:0:0 - 1)
		IfNotBlocked
		reached[1][5] = 1;
		if (!(addproc(II, 1, 0, 0)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 5: // STATE 6 - slot.pml:418 - [(run client(1))] (0:0:0 - 1)
		IfNotBlocked
		reached[1][6] = 1;
		if (!(addproc(II, 1, 0, 1)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 6: // STATE 7 - slot.pml:419 - [(run client(2))] (0:0:0 - 1)
		IfNotBlocked
		reached[1][7] = 1;
		if (!(addproc(II, 1, 0, 2)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 7: // STATE 9 - slot.pml:421 - [-end-] (0:0:0 - 1)
		IfNotBlocked
		reached[1][9] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC client */
	case 8: // STATE 7 - slot.pml:147 - [D_STEP147]
		if (!(((boq == -1 && (((int)((P0 *)_this)->id)<2))) || (boq == -1 /* else */)))
			continue;

		reached[0][7] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_004_0: /* 2 */
S_000_0: /* 2 */
		if (!((((int)((P0 *)_this)->id)<2)))
			goto S_004_1;
S_001_0: /* 2 */
		((P0 *)_this)->mine = (1+(2*((int)((P0 *)_this)->id)));
#ifdef VAR_RANGES
		logval("client:mine", ((int)((P0 *)_this)->mine));
#endif
		;
S_002_0: /* 2 */
		((P0 *)_this)->spare = (2+(2*((int)((P0 *)_this)->id)));
#ifdef VAR_RANGES
		logval("client:spare", ((int)((P0 *)_this)->spare));
#endif
		;
		goto S_005_0;
S_004_1: /* 3 */
S_003_0: /* 2 */
		/* else */;
		goto S_005_0;
S_004_2: /* 3 */
		Uerror("blocking sel in d_step (nr.0, near line 148)");
S_005_0: /* 2 */
		goto S_011_0;
S_011_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 9: // STATE 8 - slot.pml:155 - [(((id<2)&&(ops<2)))] (17:0:1 - 1)
		IfNotBlocked
		reached[0][8] = 1;
		if (!(((((int)((P0 *)_this)->id)<2)&&(((int)((P0 *)_this)->ops)<2))))
			continue;
		/* merge: .(goto)(17, 13, 17) */
		reached[0][13] = 1;
		;
		/* merge: ops = (ops+1)(17, 14, 17) */
		reached[0][14] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->ops);
		((P0 *)_this)->ops = (((int)((P0 *)_this)->ops)+1);
#ifdef VAR_RANGES
		logval("client:ops", ((int)((P0 *)_this)->ops));
#endif
		;
		_m = 3; goto P999; /* 2 */
	case 10: // STATE 9 - slot.pml:156 - [(((id>=2)&&(ops<1)))] (17:0:1 - 1)
		IfNotBlocked
		reached[0][9] = 1;
		if (!(((((int)((P0 *)_this)->id)>=2)&&(((int)((P0 *)_this)->ops)<1))))
			continue;
		/* merge: .(goto)(17, 13, 17) */
		reached[0][13] = 1;
		;
		/* merge: ops = (ops+1)(17, 14, 17) */
		reached[0][14] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->ops);
		((P0 *)_this)->ops = (((int)((P0 *)_this)->ops)+1);
#ifdef VAR_RANGES
		logval("client:ops", ((int)((P0 *)_this)->ops));
#endif
		;
		_m = 3; goto P999; /* 2 */
	case 11: // STATE 14 - slot.pml:159 - [ops = (ops+1)] (0:17:1 - 3)
		IfNotBlocked
		reached[0][14] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->ops);
		((P0 *)_this)->ops = (((int)((P0 *)_this)->ops)+1);
#ifdef VAR_RANGES
		logval("client:ops", ((int)((P0 *)_this)->ops));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 12: // STATE 15 - slot.pml:161 - [k = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[0][15] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->k);
		((P0 *)_this)->k = 0;
#ifdef VAR_RANGES
		logval("client:k", ((int)((P0 *)_this)->k));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 13: // STATE 16 - slot.pml:162 - [k = 1] (0:0:1 - 1)
		IfNotBlocked
		reached[0][16] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->k);
		((P0 *)_this)->k = 1;
#ifdef VAR_RANGES
		logval("client:k", ((int)((P0 *)_this)->k));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 14: // STATE 19 - slot.pml:165 - [((id>=2))] (69:0:1 - 1)
		IfNotBlocked
		reached[0][19] = 1;
		if (!((((int)((P0 *)_this)->id)>=2)))
			continue;
		/* merge: kind = GET(0, 20, 69) */
		reached[0][20] = 1;
		(trpt+1)->bup.oval = ((P0 *)_this)->kind;
		((P0 *)_this)->kind = 5;
#ifdef VAR_RANGES
		logval("client:kind", ((P0 *)_this)->kind);
#endif
		;
		/* merge: .(goto)(0, 30, 69) */
		reached[0][30] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 15: // STATE 21 - slot.pml:166 - [((id<2))] (69:0:1 - 1)
		IfNotBlocked
		reached[0][21] = 1;
		if (!((((int)((P0 *)_this)->id)<2)))
			continue;
		/* merge: kind = PUT(0, 22, 69) */
		reached[0][22] = 1;
		(trpt+1)->bup.oval = ((P0 *)_this)->kind;
		((P0 *)_this)->kind = 4;
#ifdef VAR_RANGES
		logval("client:kind", ((P0 *)_this)->kind);
#endif
		;
		/* merge: .(goto)(0, 30, 69) */
		reached[0][30] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 16: // STATE 23 - slot.pml:167 - [((id<2))] (69:0:1 - 1)
		IfNotBlocked
		reached[0][23] = 1;
		if (!((((int)((P0 *)_this)->id)<2)))
			continue;
		/* merge: kind = ADD(0, 24, 69) */
		reached[0][24] = 1;
		(trpt+1)->bup.oval = ((P0 *)_this)->kind;
		((P0 *)_this)->kind = 3;
#ifdef VAR_RANGES
		logval("client:kind", ((P0 *)_this)->kind);
#endif
		;
		/* merge: .(goto)(0, 30, 69) */
		reached[0][30] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 17: // STATE 25 - slot.pml:168 - [((id<2))] (69:0:1 - 1)
		IfNotBlocked
		reached[0][25] = 1;
		if (!((((int)((P0 *)_this)->id)<2)))
			continue;
		/* merge: kind = CAS(0, 26, 69) */
		reached[0][26] = 1;
		(trpt+1)->bup.oval = ((P0 *)_this)->kind;
		((P0 *)_this)->kind = 2;
#ifdef VAR_RANGES
		logval("client:kind", ((P0 *)_this)->kind);
#endif
		;
		/* merge: .(goto)(0, 30, 69) */
		reached[0][30] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 18: // STATE 27 - slot.pml:169 - [((id<2))] (69:0:1 - 1)
		IfNotBlocked
		reached[0][27] = 1;
		if (!((((int)((P0 *)_this)->id)<2)))
			continue;
		/* merge: kind = DEL(0, 28, 69) */
		reached[0][28] = 1;
		(trpt+1)->bup.oval = ((P0 *)_this)->kind;
		((P0 *)_this)->kind = 1;
#ifdef VAR_RANGES
		logval("client:kind", ((P0 *)_this)->kind);
#endif
		;
		/* merge: .(goto)(0, 30, 69) */
		reached[0][30] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 19: // STATE 69 - slot.pml:171 - [D_STEP171]
		if (!(((boq == -1 && ((int)((P0 *)_this)->mine))) || ((boq == -1 && ( !(((int)((P0 *)_this)->mine))&&((int)((P0 *)_this)->spare)))) || ((boq == -1 && (( !(((int)((P0 *)_this)->mine))&& !(((int)((P0 *)_this)->spare)))&&((int)((P0 *)_this)->limbo)))) || (boq == -1 /* else */)))
			continue;

		reached[0][69] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		if (TstOnly) return 1;


		reached[0][69] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		sv_save();
		S_056_0: /* 2 */
S_054_0: /* 2 */
S_030_0: /* 2 */
		if (!(((int)((P0 *)_this)->mine)))
			goto S_054_1;
		goto S_055_0;
S_054_1: /* 3 */
S_031_0: /* 2 */
		if (!(( !(((int)((P0 *)_this)->mine))&&((int)((P0 *)_this)->spare))))
			goto S_054_2;
S_032_0: /* 2 */
		((P0 *)_this)->mine = ((int)((P0 *)_this)->spare);
#ifdef VAR_RANGES
		logval("client:mine", ((int)((P0 *)_this)->mine));
#endif
		;
S_033_0: /* 2 */
		((P0 *)_this)->spare = 0;
#ifdef VAR_RANGES
		logval("client:spare", ((int)((P0 *)_this)->spare));
#endif
		;
S_034_0: /* 2 */
		((P0 *)_this)->mine_inc = 0;
#ifdef VAR_RANGES
		logval("client:mine_inc", ((int)((P0 *)_this)->mine_inc));
#endif
		;
		goto S_055_0;
S_054_2: /* 3 */
S_035_0: /* 2 */
		if (!((( !(((int)((P0 *)_this)->mine))&& !(((int)((P0 *)_this)->spare)))&&((int)((P0 *)_this)->limbo))))
			goto S_054_3;
S_036_0: /* 2 */
		((P0 *)_this)->mine = ((int)((P0 *)_this)->limbo);
#ifdef VAR_RANGES
		logval("client:mine", ((int)((P0 *)_this)->mine));
#endif
		;
S_037_0: /* 2 */
		((P0 *)_this)->mine_inc = ((int)((P0 *)_this)->limbo_inc);
#ifdef VAR_RANGES
		logval("client:mine_inc", ((int)((P0 *)_this)->mine_inc));
#endif
		;
S_038_0: /* 2 */
		((P0 *)_this)->limbo = 0;
#ifdef VAR_RANGES
		logval("client:limbo", ((int)((P0 *)_this)->limbo));
#endif
		;
S_039_0: /* 2 */
		((P0 *)_this)->n = 0;
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
S_050_0: /* 2 */
S_049_0: /* 2 */
S_040_0: /* 2 */
		if (!((((int)((P0 *)_this)->n)<=(3-1))))
			goto S_049_1;
S_044_0: /* 2 */
S_041_0: /* 2 */
		if (!(((int)now.inside[ Index(((int)((P0 *)_this)->n), 3) ])))
			goto S_044_1;
S_042_0: /* 2 */
		now.late[ Index(((P0 *)_this)->n, 3) ] = 1;
#ifdef VAR_RANGES
		logval("late[client:n]", ((int)now.late[ Index(((int)((P0 *)_this)->n), 3) ]));
#endif
		;
		goto S_045_0;
S_044_1: /* 3 */
S_043_0: /* 2 */
		/* else */;
		goto S_045_0;
S_044_2: /* 3 */
		Uerror("blocking sel in d_step (nr.1, near line 101)");
S_045_0: /* 2 */
S_046_0: /* 2 */
		((P0 *)_this)->n = (((int)((P0 *)_this)->n)+1);
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		goto S_050_0; /* ';' */
S_049_1: /* 3 */
S_047_0: /* 2 */
		/* else */;
S_048_0: /* 2 */
		goto S_052_0;	/* 'goto' */
S_049_2: /* 3 */
		Uerror("blocking sel in d_step (nr.2, near line 105)");
S_051_0: /* 2 */
		goto S_052_0;	/* 'break' */
S_052_0: /* 2 */
		((P0 *)_this)->n = 0;
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		goto S_055_0;
S_054_3: /* 3 */
S_053_0: /* 2 */
		/* else */;
		goto S_055_0;
S_054_4: /* 3 */
		Uerror("blocking sel in d_step (nr.3, near line 92)");
S_055_0: /* 2 */
		goto S_057_0;
S_057_0: /* 2 */
		now.asked[ Index(((P0 *)_this)->id, 3) ] = (((int)((P0 *)_this)->k)+1);
#ifdef VAR_RANGES
		logval("asked[client:id]", ((int)now.asked[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
S_058_0: /* 2 */
		now.seen[ Index(((P0 *)_this)->id, 3) ] = (1<<((int)now.current[ Index(((int)((P0 *)_this)->k), 2) ]));
#ifdef VAR_RANGES
		logval("seen[client:id]", ((int)now.seen[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
S_059_0: /* 2 */
		((P0 *)_this)->blind_before = ((int)now.blind_writes[ Index(((int)((P0 *)_this)->k), 2) ]);
#ifdef VAR_RANGES
		logval("client:blind_before", ((int)((P0 *)_this)->blind_before));
#endif
		;
S_060_0: /* 2 */
		((P0 *)_this)->word = 0;
#ifdef VAR_RANGES
		logval("client:word", ((int)((P0 *)_this)->word));
#endif
		;
S_066_0: /* 2 */
S_061_0: /* 2 */
		if (!(((((((P0 *)_this)->kind==4)||(((P0 *)_this)->kind==3))||(((P0 *)_this)->kind==2))&&((int)((P0 *)_this)->mine))))
			goto S_066_1;
S_062_0: /* 2 */
		((P0 *)_this)->value = ((1+(((int)((P0 *)_this)->id)*2))+(((int)((P0 *)_this)->ops)-1));
#ifdef VAR_RANGES
		logval("client:value", ((int)((P0 *)_this)->value));
#endif
		;
S_063_0: /* 2 */
		now.block[ Index(((P0 *)_this)->mine, 7) ] = ((((int)((P0 *)_this)->value)|(((int)((P0 *)_this)->k)<<3))|(((int)((P0 *)_this)->mine_inc)<<4));
#ifdef VAR_RANGES
		logval("block[client:mine]", ((int)now.block[ Index(((int)((P0 *)_this)->mine), 7) ]));
#endif
		;
S_064_0: /* 2 */
		((P0 *)_this)->word = (((((int)((P0 *)_this)->mine)|(((int)((P0 *)_this)->mine_inc)<<3))|(0<<5))|( ((((P0 *)_this)->kind==4)) ? (64) : (0) ));
#ifdef VAR_RANGES
		logval("client:word", ((int)((P0 *)_this)->word));
#endif
		;
		goto S_067_0;
S_066_1: /* 3 */
S_065_0: /* 2 */
		/* else */;
		goto S_067_0;
S_066_2: /* 3 */
		Uerror("blocking sel in d_step (nr.4, near line 177)");
S_067_0: /* 2 */
		goto S_072_0;
S_072_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 20: // STATE 70 - slot.pml:187 - [((((kind!=GET)&&(kind!=DEL))&&!(word)))] (0:0:2 - 1)
		IfNotBlocked
		reached[0][70] = 1;
		if (!((((((P0 *)_this)->kind!=5)&&(((P0 *)_this)->kind!=1))&& !(((int)((P0 *)_this)->word)))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: kind */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->kind;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->kind = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: word */  (trpt+1)->bup.ovals[1] = ((P0 *)_this)->word;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->word = 0;
		_m = 3; goto P999; /* 0 */
	case 21: // STATE 75 - slot.pml:202 - [inside[id] = 1] (0:79:3 - 1)
		IfNotBlocked
		reached[0][75] = 1;
		(trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.inside[ Index(((P0 *)_this)->id, 3) ] = 1;
#ifdef VAR_RANGES
		logval("inside[client:id]", ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		/* merge: late[id] = 0(79, 76, 79) */
		reached[0][76] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.late[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.late[ Index(((P0 *)_this)->id, 3) ] = 0;
#ifdef VAR_RANGES
		logval("late[client:id]", ((int)now.late[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		/* merge: img[0] = slot[0](79, 77, 79) */
		reached[0][77] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P0 *)_this)->img[0]);
		((P0 *)_this)->img[0] = ((int)now.slot[0]);
#ifdef VAR_RANGES
		logval("client:img[0]", ((int)((P0 *)_this)->img[0]));
#endif
		;
		_m = 3; goto P999; /* 2 */
	case 22: // STATE 79 - slot.pml:206 - [img[1] = slot[1]] (0:0:1 - 1)
		IfNotBlocked
		reached[0][79] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->img[1]);
		((P0 *)_this)->img[1] = ((int)now.slot[1]);
#ifdef VAR_RANGES
		logval("client:img[1]", ((int)((P0 *)_this)->img[1]));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 23: // STATE 80 - slot.pml:207 - [i = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[0][80] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->i);
		((P0 *)_this)->i = 0;
#ifdef VAR_RANGES
		logval("client:i", ((int)((P0 *)_this)->i));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 24: // STATE 81 - slot.pml:217 - [((i==2))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][81] = 1;
		if (!((((int)((P0 *)_this)->i)==2)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 25: // STATE 86 - slot.pml:220 - [w = img[i]] (0:93:1 - 2)
		IfNotBlocked
		reached[0][86] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->w);
		((P0 *)_this)->w = ((int)((P0 *)_this)->img[ Index(((int)((P0 *)_this)->i), 2) ]);
#ifdef VAR_RANGES
		logval("client:w", ((int)((P0 *)_this)->w));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 26: // STATE 87 - slot.pml:222 - [((w==0))] (0:0:1 - 1)
		IfNotBlocked
		reached[0][87] = 1;
		if (!((((int)((P0 *)_this)->w)==0)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: w */  (trpt+1)->bup.oval = ((P0 *)_this)->w;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->w = 0;
		_m = 3; goto P999; /* 0 */
	case 27: // STATE 89 - slot.pml:223 - [(((w!=0)&&((((w>>5)&1)!=0)||((kind==GET)&&(w&128)))))] (84:0:2 - 1)
		IfNotBlocked
		reached[0][89] = 1;
		if (!(((((int)((P0 *)_this)->w)!=0)&&((((((int)((P0 *)_this)->w)>>5)&1)!=0)||((((P0 *)_this)->kind==5)&&(((int)((P0 *)_this)->w)&128))))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: w */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->w;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->w = 0;
		/* merge: i = (i+1)(0, 90, 84) */
		reached[0][90] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->i);
		((P0 *)_this)->i = (((int)((P0 *)_this)->i)+1);
#ifdef VAR_RANGES
		logval("client:i", ((int)((P0 *)_this)->i));
#endif
		;
		/* merge: goto scan(0, 91, 84) */
		reached[0][91] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 28: // STATE 95 - slot.pml:228 - [c1 = block[(w&7)]] (0:0:1 - 2)
		IfNotBlocked
		reached[0][95] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->c1);
		((P0 *)_this)->c1 = ((int)now.block[ Index((((int)((P0 *)_this)->w)&7), 7) ]);
#ifdef VAR_RANGES
		logval("client:c1", ((int)((P0 *)_this)->c1));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 29: // STATE 96 - slot.pml:230 - [c2 = block[(w&7)]] (0:0:1 - 1)
		IfNotBlocked
		reached[0][96] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->c2);
		((P0 *)_this)->c2 = ((int)now.block[ Index((((int)((P0 *)_this)->w)&7), 7) ]);
#ifdef VAR_RANGES
		logval("client:c2", ((int)((P0 *)_this)->c2));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 30: // STATE 97 - slot.pml:233 - [((late[id]&&(slot[i]!=w)))] (78:0:2 - 1)
		IfNotBlocked
		reached[0][97] = 1;
		if (!((((int)now.late[ Index(((int)((P0 *)_this)->id), 3) ])&&(((int)now.slot[ Index(((int)((P0 *)_this)->i), 2) ])!=((int)((P0 *)_this)->w)))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: i */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->i;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->i = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: w */  (trpt+1)->bup.ovals[1] = ((P0 *)_this)->w;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->w = 0;
		/* merge: goto again(0, 98, 78) */
		reached[0][98] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 31: // STATE 99 - slot.pml:238 - [((late[id]&&(slot[i]==w)))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][99] = 1;
		if (!((((int)now.late[ Index(((int)((P0 *)_this)->id), 3) ])&&(((int)now.slot[ Index(((int)((P0 *)_this)->i), 2) ])==((int)((P0 *)_this)->w)))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 32: // STATE 104 - slot.pml:248 - [(((c1!=c2)||(((c1>>4)&3)!=((w>>3)&3))))] (78:0:2 - 1)
		IfNotBlocked
		reached[0][104] = 1;
		if (!(((((int)((P0 *)_this)->c1)!=((int)((P0 *)_this)->c2))||(((((int)((P0 *)_this)->c1)>>4)&3)!=((((int)((P0 *)_this)->w)>>3)&3)))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: c2 */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->c2;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->c2 = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: w */  (trpt+1)->bup.ovals[1] = ((P0 *)_this)->w;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->w = 0;
		/* merge: goto again(0, 105, 78) */
		reached[0][105] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 33: // STATE 108 - slot.pml:256 - [.(goto)] (0:116:1 - 1)
		IfNotBlocked
		reached[0][108] = 1;
		;
		/* merge: inside[id] = 0(116, 109, 116) */
		reached[0][109] = 1;
		(trpt+1)->bup.oval = ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.inside[ Index(((P0 *)_this)->id, 3) ] = 0;
#ifdef VAR_RANGES
		logval("inside[client:id]", ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 34: // STATE 111 - slot.pml:259 - [((((c1>>3)&1)!=k))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][111] = 1;
		if (!((((((int)((P0 *)_this)->c1)>>3)&1)!=((int)((P0 *)_this)->k))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 35: // STATE 112 - slot.pml:260 - [inside[id] = 1] (0:0:1 - 1)
		IfNotBlocked
		reached[0][112] = 1;
		(trpt+1)->bup.oval = ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.inside[ Index(((P0 *)_this)->id, 3) ] = 1;
#ifdef VAR_RANGES
		logval("inside[client:id]", ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 36: // STATE 113 - slot.pml:261 - [i = (i+1)] (0:0:1 - 1)
		IfNotBlocked
		reached[0][113] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->i);
		((P0 *)_this)->i = (((int)((P0 *)_this)->i)+1);
#ifdef VAR_RANGES
		logval("client:i", ((int)((P0 *)_this)->i));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 37: // STATE 118 - slot.pml:269 - [inserting = 0] (0:0:1 - 4)
		IfNotBlocked
		reached[0][118] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->inserting);
		((P0 *)_this)->inserting = 0;
#ifdef VAR_RANGES
		logval("client:inserting", ((int)((P0 *)_this)->inserting));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 38: // STATE 119 - slot.pml:271 - [((kind==GET))] (0:0:1 - 1)
		IfNotBlocked
		reached[0][119] = 1;
		if (!((((P0 *)_this)->kind==5)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: kind */  (trpt+1)->bup.oval = ((P0 *)_this)->kind;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->kind = 0;
		_m = 3; goto P999; /* 0 */
	case 39: // STATE 120 - slot.pml:272 - [assert((((c1&7)!=0)&&((seen[id]>>(c1&7))&1)))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][120] = 1;
		spin_assert((((((int)((P0 *)_this)->c1)&7)!=0)&&((((int)now.seen[ Index(((int)((P0 *)_this)->id), 3) ])>>(((int)((P0 *)_this)->c1)&7))&1)), "(((c1&7)!=0)&&((seen[id]>>(c1&7))&1))", II, tt, t);
		_m = 3; goto P999; /* 0 */
	case 40: // STATE 122 - slot.pml:274 - [(((kind==ADD)&&!((w&128))))] (0:0:2 - 1)
		IfNotBlocked
		reached[0][122] = 1;
		if (!(((((P0 *)_this)->kind==3)&& !((((int)((P0 *)_this)->w)&128)))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: kind */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->kind;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->kind = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: w */  (trpt+1)->bup.ovals[1] = ((P0 *)_this)->w;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->w = 0;
		_m = 3; goto P999; /* 0 */
	case 41: // STATE 123 - slot.pml:274 - [assert((seen[id]&254))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][123] = 1;
		spin_assert((((int)now.seen[ Index(((int)((P0 *)_this)->id), 3) ])&254), "(seen[id]&254)", II, tt, t);
		_m = 3; goto P999; /* 0 */
	case 42: // STATE 125 - slot.pml:275 - [((((kind==CAS)||(kind==DEL))&&(w&128)))] (0:0:2 - 1)
		IfNotBlocked
		reached[0][125] = 1;
		if (!((((((P0 *)_this)->kind==2)||(((P0 *)_this)->kind==1))&&(((int)((P0 *)_this)->w)&128))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: kind */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->kind;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->kind = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: w */  (trpt+1)->bup.ovals[1] = ((P0 *)_this)->w;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->w = 0;
		_m = 3; goto P999; /* 0 */
	case 43: // STATE 126 - slot.pml:276 - [assert(((seen[id]>>0)&1))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][126] = 1;
		spin_assert(((((int)now.seen[ Index(((int)((P0 *)_this)->id), 3) ])>>0)&1), "((seen[id]>>0)&1)", II, tt, t);
		_m = 3; goto P999; /* 0 */
	case 44: // STATE 132 - slot.pml:283 - [inside[id] = 0] (0:0:1 - 4)
		IfNotBlocked
		reached[0][132] = 1;
		(trpt+1)->bup.oval = ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.inside[ Index(((P0 *)_this)->id, 3) ] = 0;
#ifdef VAR_RANGES
		logval("inside[client:id]", ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 45: // STATE 133 - slot.pml:285 - [(((kind==PUT)||(kind==ADD)))] (142:0:2 - 1)
		IfNotBlocked
		reached[0][133] = 1;
		if (!(((((P0 *)_this)->kind==4)||(((P0 *)_this)->kind==3))))
			continue;
		/* merge: assert((i<2))(142, 134, 142) */
		reached[0][134] = 1;
		spin_assert((((int)((P0 *)_this)->i)<2), "(i<2)", II, tt, t);
		/* merge: inserting = 1(142, 135, 142) */
		reached[0][135] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->inserting);
		((P0 *)_this)->inserting = 1;
#ifdef VAR_RANGES
		logval("client:inserting", ((int)((P0 *)_this)->inserting));
#endif
		;
		/* merge: w = 0(142, 136, 142) */
		reached[0][136] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->w);
		((P0 *)_this)->w = 0;
#ifdef VAR_RANGES
		logval("client:w", ((int)((P0 *)_this)->w));
#endif
		;
		/* merge: .(goto)(0, 141, 142) */
		reached[0][141] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 46: // STATE 138 - slot.pml:290 - [assert(((seen[id]>>0)&1))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][138] = 1;
		spin_assert(((((int)now.seen[ Index(((int)((P0 *)_this)->id), 3) ])>>0)&1), "((seen[id]>>0)&1)", II, tt, t);
		_m = 3; goto P999; /* 0 */
	case 47: // STATE 142 - slot.pml:295 - [inside[id] = 0] (0:0:1 - 5)
		IfNotBlocked
		reached[0][142] = 1;
		(trpt+1)->bup.oval = ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.inside[ Index(((P0 *)_this)->id, 3) ] = 0;
#ifdef VAR_RANGES
		logval("inside[client:id]", ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 48: // STATE 143 - slot.pml:297 - [found = slot[i]] (0:0:1 - 1)
		IfNotBlocked
		reached[0][143] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->found);
		((P0 *)_this)->found = ((int)now.slot[ Index(((int)((P0 *)_this)->i), 2) ]);
#ifdef VAR_RANGES
		logval("client:found", ((int)((P0 *)_this)->found));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 49: // STATE 144 - slot.pml:299 - [(((found==w)&&(kind==DEL)))] (165:0:5 - 1)
		IfNotBlocked
		reached[0][144] = 1;
		if (!(((((int)((P0 *)_this)->found)==((int)((P0 *)_this)->w))&&(((P0 *)_this)->kind==1))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: found */  (trpt+1)->bup.ovals = grab_ints(5);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->found;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->found = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: kind */  (trpt+1)->bup.ovals[1] = ((P0 *)_this)->kind;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->kind = 0;
		/* merge: assert((current[k]!=0))(165, 145, 165) */
		reached[0][145] = 1;
		spin_assert((((int)now.current[ Index(((int)((P0 *)_this)->k), 2) ])!=0), "(current[k]!=0)", II, tt, t);
		/* merge: slot[i] = ((w|128)|64)(165, 146, 165) */
		reached[0][146] = 1;
		(trpt+1)->bup.ovals[2] = ((int)now.slot[ Index(((int)((P0 *)_this)->i), 2) ]);
		now.slot[ Index(((P0 *)_this)->i, 2) ] = ((((int)((P0 *)_this)->w)|128)|64);
#ifdef VAR_RANGES
		logval("slot[client:i]", ((int)now.slot[ Index(((int)((P0 *)_this)->i), 2) ]));
#endif
		;
		/* merge: blind_writes[k] = (blind_writes[k]+1)(165, 147, 165) */
		reached[0][147] = 1;
		(trpt+1)->bup.ovals[3] = ((int)now.blind_writes[ Index(((int)((P0 *)_this)->k), 2) ]);
		now.blind_writes[ Index(((P0 *)_this)->k, 2) ] = (((int)now.blind_writes[ Index(((int)((P0 *)_this)->k), 2) ])+1);
#ifdef VAR_RANGES
		logval("blind_writes[client:k]", ((int)now.blind_writes[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
		/* merge: deleted[k] = (deleted[k]+1)(165, 148, 165) */
		reached[0][148] = 1;
		(trpt+1)->bup.ovals[4] = ((int)now.deleted[ Index(((int)((P0 *)_this)->k), 2) ]);
		now.deleted[ Index(((P0 *)_this)->k, 2) ] = (((int)now.deleted[ Index(((int)((P0 *)_this)->k), 2) ])+1);
#ifdef VAR_RANGES
		logval("deleted[client:k]", ((int)now.deleted[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
		/* merge: assert((deleted[k]<=created[k]))(165, 149, 165) */
		reached[0][149] = 1;
		spin_assert((((int)now.deleted[ Index(((int)((P0 *)_this)->k), 2) ])<=((int)now.created[ Index(((int)((P0 *)_this)->k), 2) ])), "(deleted[k]<=created[k])", II, tt, t);
		_m = 3; goto P999; /* 5 */
	case 50: // STATE 150 - slot.pml:79 - [current[k] = 0] (0:161:2 - 1)
		IfNotBlocked
		reached[0][150] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.current[ Index(((int)((P0 *)_this)->k), 2) ]);
		now.current[ Index(((P0 *)_this)->k, 2) ] = 0;
#ifdef VAR_RANGES
		logval("current[client:k]", ((int)now.current[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
		/* merge: n = 0(161, 151, 161) */
		reached[0][151] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = 0;
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: .(goto)(0, 162, 161) */
		reached[0][162] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 51: // STATE 152 - slot.pml:80 - [((n<=(3-1)))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][152] = 1;
		if (!((((int)((P0 *)_this)->n)<=(3-1))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 52: // STATE 153 - slot.pml:82 - [((asked[n]==(k+1)))] (161:0:2 - 1)
		IfNotBlocked
		reached[0][153] = 1;
		if (!((((int)now.asked[ Index(((int)((P0 *)_this)->n), 3) ])==(((int)((P0 *)_this)->k)+1))))
			continue;
		/* merge: seen[n] = (seen[n]|(1<<0))(161, 154, 161) */
		reached[0][154] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.seen[ Index(((int)((P0 *)_this)->n), 3) ]);
		now.seen[ Index(((P0 *)_this)->n, 3) ] = (((int)now.seen[ Index(((int)((P0 *)_this)->n), 3) ])|(1<<0));
#ifdef VAR_RANGES
		logval("seen[client:n]", ((int)now.seen[ Index(((int)((P0 *)_this)->n), 3) ]));
#endif
		;
		/* merge: .(goto)(161, 157, 161) */
		reached[0][157] = 1;
		;
		/* merge: n = (n+1)(161, 158, 161) */
		reached[0][158] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = (((int)((P0 *)_this)->n)+1);
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: .(goto)(0, 162, 161) */
		reached[0][162] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 53: // STATE 158 - slot.pml:80 - [n = (n+1)] (0:161:1 - 3)
		IfNotBlocked
		reached[0][158] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = (((int)((P0 *)_this)->n)+1);
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: .(goto)(0, 162, 161) */
		reached[0][162] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 54: // STATE 164 - slot.pml:86 - [n = 0] (0:253:1 - 3)
		IfNotBlocked
		reached[0][164] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = 0;
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: goto finish(253, 166, 253) */
		reached[0][166] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 55: // STATE 167 - slot.pml:311 - [(((found==w)&&(kind!=DEL)))] (188:0:4 - 1)
		IfNotBlocked
		reached[0][167] = 1;
		if (!(((((int)((P0 *)_this)->found)==((int)((P0 *)_this)->w))&&(((P0 *)_this)->kind!=1))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: found */  (trpt+1)->bup.ovals = grab_ints(4);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->found;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->found = 0;
		/* merge: slot[i] = word(188, 168, 188) */
		reached[0][168] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.slot[ Index(((int)((P0 *)_this)->i), 2) ]);
		now.slot[ Index(((P0 *)_this)->i, 2) ] = ((int)((P0 *)_this)->word);
#ifdef VAR_RANGES
		logval("slot[client:i]", ((int)now.slot[ Index(((int)((P0 *)_this)->i), 2) ]));
#endif
		;
		/* merge: assert(((kind!=ADD)||(current[k]==0)))(188, 169, 188) */
		reached[0][169] = 1;
		spin_assert(((((P0 *)_this)->kind!=3)||(((int)now.current[ Index(((int)((P0 *)_this)->k), 2) ])==0)), "((kind!=3)||(current[k]==0))", II, tt, t);
		/* merge: assert(((kind!=CAS)||(current[k]==(c1&7))))(188, 170, 188) */
		reached[0][170] = 1;
		spin_assert(((((P0 *)_this)->kind!=2)||(((int)now.current[ Index(((int)((P0 *)_this)->k), 2) ])==(((int)((P0 *)_this)->c1)&7))), "((kind!=2)||(current[k]==(c1&7)))", II, tt, t);
		/* merge: blind_writes[k] = (blind_writes[k]+(kind==PUT))(188, 171, 188) */
		reached[0][171] = 1;
		(trpt+1)->bup.ovals[2] = ((int)now.blind_writes[ Index(((int)((P0 *)_this)->k), 2) ]);
		now.blind_writes[ Index(((P0 *)_this)->k, 2) ] = (((int)now.blind_writes[ Index(((int)((P0 *)_this)->k), 2) ])+(((P0 *)_this)->kind==4));
#ifdef VAR_RANGES
		logval("blind_writes[client:k]", ((int)now.blind_writes[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
		/* merge: created[k] = (created[k]+1)(188, 172, 188) */
		reached[0][172] = 1;
		(trpt+1)->bup.ovals[3] = ((int)now.created[ Index(((int)((P0 *)_this)->k), 2) ]);
		now.created[ Index(((P0 *)_this)->k, 2) ] = (((int)now.created[ Index(((int)((P0 *)_this)->k), 2) ])+1);
#ifdef VAR_RANGES
		logval("created[client:k]", ((int)now.created[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
		_m = 3; goto P999; /* 5 */
	case 56: // STATE 173 - slot.pml:79 - [current[k] = value] (0:184:2 - 1)
		IfNotBlocked
		reached[0][173] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.current[ Index(((int)((P0 *)_this)->k), 2) ]);
		now.current[ Index(((P0 *)_this)->k, 2) ] = ((int)((P0 *)_this)->value);
#ifdef VAR_RANGES
		logval("current[client:k]", ((int)now.current[ Index(((int)((P0 *)_this)->k), 2) ]));
#endif
		;
		/* merge: n = 0(184, 174, 184) */
		reached[0][174] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = 0;
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: .(goto)(0, 185, 184) */
		reached[0][185] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 57: // STATE 175 - slot.pml:80 - [((n<=(3-1)))] (0:0:0 - 1)
		IfNotBlocked
		reached[0][175] = 1;
		if (!((((int)((P0 *)_this)->n)<=(3-1))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 58: // STATE 176 - slot.pml:82 - [((asked[n]==(k+1)))] (184:0:2 - 1)
		IfNotBlocked
		reached[0][176] = 1;
		if (!((((int)now.asked[ Index(((int)((P0 *)_this)->n), 3) ])==(((int)((P0 *)_this)->k)+1))))
			continue;
		/* merge: seen[n] = (seen[n]|(1<<value))(184, 177, 184) */
		reached[0][177] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)now.seen[ Index(((int)((P0 *)_this)->n), 3) ]);
		now.seen[ Index(((P0 *)_this)->n, 3) ] = (((int)now.seen[ Index(((int)((P0 *)_this)->n), 3) ])|(1<<((int)((P0 *)_this)->value)));
#ifdef VAR_RANGES
		logval("seen[client:n]", ((int)now.seen[ Index(((int)((P0 *)_this)->n), 3) ]));
#endif
		;
		/* merge: .(goto)(184, 180, 184) */
		reached[0][180] = 1;
		;
		/* merge: n = (n+1)(184, 181, 184) */
		reached[0][181] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = (((int)((P0 *)_this)->n)+1);
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: .(goto)(0, 185, 184) */
		reached[0][185] = 1;
		;
		_m = 3; goto P999; /* 4 */
	case 59: // STATE 181 - slot.pml:80 - [n = (n+1)] (0:184:1 - 3)
		IfNotBlocked
		reached[0][181] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = (((int)((P0 *)_this)->n)+1);
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: .(goto)(0, 185, 184) */
		reached[0][185] = 1;
		;
		_m = 3; goto P999; /* 1 */
	case 60: // STATE 187 - slot.pml:86 - [n = 0] (0:212:2 - 3)
		IfNotBlocked
		reached[0][187] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = 0;
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: mine = 0(212, 189, 212) */
		reached[0][189] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->mine);
		((P0 *)_this)->mine = 0;
#ifdef VAR_RANGES
		logval("client:mine", ((int)((P0 *)_this)->mine));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 61: // STATE 190 - slot.pml:320 - [(inserting)] (0:0:1 - 1)
		IfNotBlocked
		reached[0][190] = 1;
		if (!(((int)((P0 *)_this)->inserting)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: inserting */  (trpt+1)->bup.oval = ((P0 *)_this)->inserting;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->inserting = 0;
		_m = 3; goto P999; /* 0 */
	case 62: // STATE 191 - slot.pml:125 - [n = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[0][191] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = 0;
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 63: // STATE 192 - slot.pml:125 - [((n<=(2-1)))] (197:0:1 - 1)
		IfNotBlocked
		reached[0][192] = 1;
		if (!((((int)((P0 *)_this)->n)<=(2-1))))
			continue;
		/* merge: assert((((n==i)||(slot[n]==0))||(((block[(slot[n]&7)]>>3)&1)!=k)))(197, 193, 197) */
		reached[0][193] = 1;
		spin_assert((((((int)((P0 *)_this)->n)==((int)((P0 *)_this)->i))||(((int)now.slot[ Index(((int)((P0 *)_this)->n), 2) ])==0))||(((((int)now.block[ Index((((int)now.slot[ Index(((int)((P0 *)_this)->n), 2) ])&7), 7) ])>>3)&1)!=((int)((P0 *)_this)->k))), "(((n==i)||(slot[n]==0))||(((block[(slot[n]&7)]>>3)&1)!=k))", II, tt, t);
		/* merge: n = (n+1)(197, 194, 197) */
		reached[0][194] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = (((int)((P0 *)_this)->n)+1);
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: .(goto)(0, 198, 197) */
		reached[0][198] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 64: // STATE 200 - slot.pml:129 - [n = 0] (0:253:1 - 3)
		IfNotBlocked
		reached[0][200] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->n);
		((P0 *)_this)->n = 0;
#ifdef VAR_RANGES
		logval("client:n", ((int)((P0 *)_this)->n));
#endif
		;
		/* merge: .(goto)(253, 213, 253) */
		reached[0][213] = 1;
		;
		/* merge: goto finish(253, 214, 253) */
		reached[0][214] = 1;
		;
		_m = 3; goto P999; /* 2 */
	case 65: // STATE 203 - slot.pml:114 - [limbo = (w&7)] (0:209:2 - 1)
		IfNotBlocked
		reached[0][203] = 1;
		(trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((int)((P0 *)_this)->limbo);
		((P0 *)_this)->limbo = (((int)((P0 *)_this)->w)&7);
#ifdef VAR_RANGES
		logval("client:limbo", ((int)((P0 *)_this)->limbo));
#endif
		;
		/* merge: limbo_inc = (((w>>3)&3)+1)(209, 204, 209) */
		reached[0][204] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->limbo_inc);
		((P0 *)_this)->limbo_inc = (((((int)((P0 *)_this)->w)>>3)&3)+1);
#ifdef VAR_RANGES
		logval("client:limbo_inc", ((int)((P0 *)_this)->limbo_inc));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 66: // STATE 205 - slot.pml:117 - [((limbo_inc>=4))] (253:0:3 - 1)
		IfNotBlocked
		reached[0][205] = 1;
		if (!((((int)((P0 *)_this)->limbo_inc)>=4)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: limbo_inc */  (trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->limbo_inc;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->limbo_inc = 0;
		/* merge: limbo = 0(253, 206, 253) */
		reached[0][206] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->limbo);
		((P0 *)_this)->limbo = 0;
#ifdef VAR_RANGES
		logval("client:limbo", ((int)((P0 *)_this)->limbo));
#endif
		;
		/* merge: limbo_inc = 0(253, 207, 253) */
		reached[0][207] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P0 *)_this)->limbo_inc);
		((P0 *)_this)->limbo_inc = 0;
#ifdef VAR_RANGES
		logval("client:limbo_inc", ((int)((P0 *)_this)->limbo_inc));
#endif
		;
		/* merge: .(goto)(253, 210, 253) */
		reached[0][210] = 1;
		;
		/* merge: .(goto)(253, 213, 253) */
		reached[0][213] = 1;
		;
		/* merge: goto finish(253, 214, 253) */
		reached[0][214] = 1;
		;
		_m = 3; goto P999; /* 5 */
	case 67: // STATE 214 - slot.pml:328 - [goto finish] (0:253:0 - 5)
		IfNotBlocked
		reached[0][214] = 1;
		;
		_m = 3; goto P999; /* 0 */
	case 68: // STATE 219 - slot.pml:340 - [(inserting)] (224:0:3 - 1)
		IfNotBlocked
		reached[0][219] = 1;
		if (!(((int)((P0 *)_this)->inserting)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: inserting */  (trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->inserting;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->inserting = 0;
		/* merge: img[i] = found(224, 220, 224) */
		reached[0][220] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P0 *)_this)->img[ Index(((int)((P0 *)_this)->i), 2) ]);
		((P0 *)_this)->img[ Index(((P0 *)_this)->i, 2) ] = ((int)((P0 *)_this)->found);
#ifdef VAR_RANGES
		logval("client:img[client:i]", ((int)((P0 *)_this)->img[ Index(((int)((P0 *)_this)->i), 2) ]));
#endif
		;
		/* merge: inserting = 0(224, 221, 224) */
		reached[0][221] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P0 *)_this)->inserting);
		((P0 *)_this)->inserting = 0;
#ifdef VAR_RANGES
		logval("client:inserting", ((int)((P0 *)_this)->inserting));
#endif
		;
		_m = 3; goto P999; /* 2 */
	case 69: // STATE 224 - slot.pml:349 - [D_STEP349]
		IfNotBlocked

		reached[0][224] = 1;
		reached[0][t->st] = 1;
		reached[0][tt] = 1;

		if (TstOnly) return 1;

		sv_save();
		S_221_0: /* 2 */
		now.inside[ Index(((P0 *)_this)->id, 3) ] = 1;
#ifdef VAR_RANGES
		logval("inside[client:id]", ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
S_222_0: /* 2 */
		now.late[ Index(((P0 *)_this)->id, 3) ] = 0;
#ifdef VAR_RANGES
		logval("late[client:id]", ((int)now.late[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		goto S_224_0;
S_224_0: /* 1 */

#if defined(C_States) && (HAS_TRACK==1)
		c_update((uchar *) &(now.c_state[0]));
#endif
		_m = 3; goto P999;

	case 70: // STATE 229 - slot.pml:372 - [(((kind==PUT)&&(found&64)))] (0:0:2 - 1)
		IfNotBlocked
		reached[0][229] = 1;
		if (!(((((P0 *)_this)->kind==4)&&(((int)((P0 *)_this)->found)&64))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: kind */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->kind;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->kind = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: found */  (trpt+1)->bup.ovals[1] = ((P0 *)_this)->found;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->found = 0;
		_m = 3; goto P999; /* 0 */
	case 71: // STATE 231 - slot.pml:373 - [(((kind==CAS)&&!((found&128))))] (0:0:2 - 1)
		IfNotBlocked
		reached[0][231] = 1;
		if (!(((((P0 *)_this)->kind==2)&& !((((int)((P0 *)_this)->found)&128)))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: kind */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P0 *)_this)->kind;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->kind = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: found */  (trpt+1)->bup.ovals[1] = ((P0 *)_this)->found;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->found = 0;
		_m = 3; goto P999; /* 0 */
	case 72: // STATE 234 - slot.pml:378 - [w = found] (0:0:1 - 1)
		IfNotBlocked
		reached[0][234] = 1;
		(trpt+1)->bup.oval = ((int)((P0 *)_this)->w);
		((P0 *)_this)->w = ((int)((P0 *)_this)->found);
#ifdef VAR_RANGES
		logval("client:w", ((int)((P0 *)_this)->w));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 73: // STATE 238 - slot.pml:385 - [assert((blind_writes[k]>blind_before))] (0:0:0 - 3)
		IfNotBlocked
		reached[0][238] = 1;
		spin_assert((((int)now.blind_writes[ Index(((int)((P0 *)_this)->k), 2) ])>((int)((P0 *)_this)->blind_before)), "(blind_writes[k]>blind_before)", II, tt, t);
		_m = 3; goto P999; /* 0 */
	case 74: // STATE 239 - slot.pml:389 - [asked[id] = 0] (0:12:14 - 1)
		IfNotBlocked
		reached[0][239] = 1;
		(trpt+1)->bup.ovals = grab_ints(14);
		(trpt+1)->bup.ovals[0] = ((int)now.asked[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.asked[ Index(((P0 *)_this)->id, 3) ] = 0;
#ifdef VAR_RANGES
		logval("asked[client:id]", ((int)now.asked[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		/* merge: inside[id] = 0(12, 240, 12) */
		reached[0][240] = 1;
		(trpt+1)->bup.ovals[1] = ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.inside[ Index(((P0 *)_this)->id, 3) ] = 0;
#ifdef VAR_RANGES
		logval("inside[client:id]", ((int)now.inside[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		/* merge: late[id] = 0(12, 241, 12) */
		reached[0][241] = 1;
		(trpt+1)->bup.ovals[2] = ((int)now.late[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.late[ Index(((P0 *)_this)->id, 3) ] = 0;
#ifdef VAR_RANGES
		logval("late[client:id]", ((int)now.late[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		/* merge: seen[id] = 0(12, 242, 12) */
		reached[0][242] = 1;
		(trpt+1)->bup.ovals[3] = ((int)now.seen[ Index(((int)((P0 *)_this)->id), 3) ]);
		now.seen[ Index(((P0 *)_this)->id, 3) ] = 0;
#ifdef VAR_RANGES
		logval("seen[client:id]", ((int)now.seen[ Index(((int)((P0 *)_this)->id), 3) ]));
#endif
		;
		/* merge: w = 0(12, 243, 12) */
		reached[0][243] = 1;
		(trpt+1)->bup.ovals[4] = ((int)((P0 *)_this)->w);
		((P0 *)_this)->w = 0;
#ifdef VAR_RANGES
		logval("client:w", ((int)((P0 *)_this)->w));
#endif
		;
		/* merge: c1 = 0(12, 244, 12) */
		reached[0][244] = 1;
		(trpt+1)->bup.ovals[5] = ((int)((P0 *)_this)->c1);
		((P0 *)_this)->c1 = 0;
#ifdef VAR_RANGES
		logval("client:c1", ((int)((P0 *)_this)->c1));
#endif
		;
		/* merge: c2 = 0(12, 245, 12) */
		reached[0][245] = 1;
		(trpt+1)->bup.ovals[6] = ((int)((P0 *)_this)->c2);
		((P0 *)_this)->c2 = 0;
#ifdef VAR_RANGES
		logval("client:c2", ((int)((P0 *)_this)->c2));
#endif
		;
		/* merge: found = 0(12, 246, 12) */
		reached[0][246] = 1;
		(trpt+1)->bup.ovals[7] = ((int)((P0 *)_this)->found);
		((P0 *)_this)->found = 0;
#ifdef VAR_RANGES
		logval("client:found", ((int)((P0 *)_this)->found));
#endif
		;
		/* merge: word = 0(12, 247, 12) */
		reached[0][247] = 1;
		(trpt+1)->bup.ovals[8] = ((int)((P0 *)_this)->word);
		((P0 *)_this)->word = 0;
#ifdef VAR_RANGES
		logval("client:word", ((int)((P0 *)_this)->word));
#endif
		;
		/* merge: value = 0(12, 248, 12) */
		reached[0][248] = 1;
		(trpt+1)->bup.ovals[9] = ((int)((P0 *)_this)->value);
		((P0 *)_this)->value = 0;
#ifdef VAR_RANGES
		logval("client:value", ((int)((P0 *)_this)->value));
#endif
		;
		/* merge: i = 0(12, 249, 12) */
		reached[0][249] = 1;
		(trpt+1)->bup.ovals[10] = ((int)((P0 *)_this)->i);
		((P0 *)_this)->i = 0;
#ifdef VAR_RANGES
		logval("client:i", ((int)((P0 *)_this)->i));
#endif
		;
		/* merge: img[0] = 0(12, 250, 12) */
		reached[0][250] = 1;
		(trpt+1)->bup.ovals[11] = ((int)((P0 *)_this)->img[0]);
		((P0 *)_this)->img[0] = 0;
#ifdef VAR_RANGES
		logval("client:img[0]", ((int)((P0 *)_this)->img[0]));
#endif
		;
		/* merge: img[1] = 0(12, 251, 12) */
		reached[0][251] = 1;
		(trpt+1)->bup.ovals[12] = ((int)((P0 *)_this)->img[1]);
		((P0 *)_this)->img[1] = 0;
#ifdef VAR_RANGES
		logval("client:img[1]", ((int)((P0 *)_this)->img[1]));
#endif
		;
		/* merge: inserting = 0(12, 252, 12) */
		reached[0][252] = 1;
		(trpt+1)->bup.ovals[13] = ((int)((P0 *)_this)->inserting);
		((P0 *)_this)->inserting = 0;
#ifdef VAR_RANGES
		logval("client:inserting", ((int)((P0 *)_this)->inserting));
#endif
		;
		/* merge: goto next(0, 254, 12) */
		reached[0][254] = 1;
		;
		_m = 3; goto P999; /* 14 */
	case 75: // STATE 256 - slot.pml:407 - [-end-] (0:0:0 - 1)
		IfNotBlocked
		reached[0][256] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */
	case  _T5:	/* np_ */
		if (!((!(trpt->o_pm&4) && !(trpt->tau&128))))
			continue;
		/* else fall through */
	case  _T2:	/* true */
		_m = 3; goto P999;
#undef rand
	}


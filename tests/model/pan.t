#ifdef PEG
struct T_SRC {
	char *fl; int ln;
} T_SRC[NTRANS];

void
tr_2_src(int m, char *file, int ln)
{	T_SRC[m].fl = file;
	T_SRC[m].ln = ln;
}

void
putpeg(int n, int m)
{	printf("%5d	trans %4d ", m, n);
	printf("%s:%d\n",
		T_SRC[n].fl, T_SRC[n].ln);
}
#endif

void
settable(void)
{	Trans *T;
	Trans *settr(int, int, int, int, int, char *, int, int, int);

	trans = (Trans ***) emalloc(3*sizeof(Trans **));

	/* proctype 1: :init: */

	trans[1] = (Trans **) emalloc(10*sizeof(Trans *));

	T = trans[ 1][8] = settr(263,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(263,2,1,0,0,"ATOMIC", 1, 2, 0);
	trans[1][1]	= settr(256,2,5,3,3,"block[5] = ((7|(0<<3))|(0<<4))", 1, 2, 0); /* m: 2 -> 0,5 */
	reached1[2] = 1;
	trans[1][2]	= settr(0,0,0,0,0,"slot[0] = (((5|(0<<3))|(0<<5))|64)",0,0,0);
	trans[1][3]	= settr(0,0,0,0,0,"current[0] = 7",0,0,0);
	trans[1][4]	= settr(0,0,0,0,0,"created[0] = 1",0,0,0);
	trans[1][5]	= settr(260,2,6,4,4,"(run client(0))", 1, 2, 0);
	trans[1][6]	= settr(261,2,7,5,5,"(run client(1))", 1, 2, 0);
	trans[1][7]	= settr(262,0,9,6,6,"(run client(2))", 1, 2, 0);
	trans[1][9]	= settr(264,0,0,7,7,"-end-", 0, 3500, 0);

	/* proctype 0: client */

	trans[0] = (Trans **) emalloc(257*sizeof(Trans *));

/*->*/	trans[0][7]	= settr(6,32,12,8,8,"D_STEP147", 0, 2, 0);
	T = trans[0][12] = settr(11,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(11,0,8,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(11,0,9,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(11,0,10,0,0,"IF", 0, 2, 0);
	trans[0][8]	= settr(7,0,17,9,9,"(((id<2)&&(ops<2)))", 0, 2, 0); /* m: 14 -> 17,0 */
	reached0[14] = 1;
	trans[0][13]	= settr(12,0,14,1,0,".(goto)", 0, 2, 0); /* m: 14 -> 0,17 */
	reached0[14] = 1;
	trans[0][9]	= settr(8,0,17,10,10,"(((id>=2)&&(ops<1)))", 0, 2, 0); /* m: 14 -> 17,0 */
	reached0[14] = 1;
	trans[0][10]	= settr(9,0,255,2,0,"else", 0, 2, 0);
	trans[0][11]	= settr(10,0,255,1,0,"goto done", 0, 2, 0);
	trans[0][14]	= settr(13,0,17,11,11,"ops = (ops+1)", 0, 2, 0);
	T = trans[0][17] = settr(16,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(16,0,15,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(16,0,16,0,0,"IF", 0, 2, 0);
	trans[0][15]	= settr(14,0,29,12,12,"k = 0", 0, 2, 0);
	trans[0][18]	= settr(17,0,29,1,0,".(goto)", 0, 2, 0);
	trans[0][16]	= settr(15,0,29,13,13,"k = 1", 0, 2, 0);
	T = trans[0][29] = settr(28,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(28,0,19,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(28,0,21,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(28,0,23,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(28,0,25,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(28,0,27,0,0,"IF", 0, 2, 0);
	trans[0][19]	= settr(18,0,69,14,14,"((id>=2))", 0, 2, 0); /* m: 20 -> 69,0 */
	reached0[20] = 1;
	trans[0][20]	= settr(0,0,0,0,0,"kind = GET",0,0,0);
	trans[0][30]	= settr(29,0,69,1,0,".(goto)", 0, 2, 0);
	trans[0][21]	= settr(20,0,69,15,15,"((id<2))", 0, 2, 0); /* m: 22 -> 69,0 */
	reached0[22] = 1;
	trans[0][22]	= settr(0,0,0,0,0,"kind = PUT",0,0,0);
	trans[0][23]	= settr(22,0,69,16,16,"((id<2))", 0, 2, 0); /* m: 24 -> 69,0 */
	reached0[24] = 1;
	trans[0][24]	= settr(0,0,0,0,0,"kind = ADD",0,0,0);
	trans[0][25]	= settr(24,0,69,17,17,"((id<2))", 0, 2, 0); /* m: 26 -> 69,0 */
	reached0[26] = 1;
	trans[0][26]	= settr(0,0,0,0,0,"kind = CAS",0,0,0);
	trans[0][27]	= settr(26,0,69,18,18,"((id<2))", 0, 2, 0); /* m: 28 -> 69,0 */
	reached0[28] = 1;
	trans[0][28]	= settr(0,0,0,0,0,"kind = DEL",0,0,0);
/*->*/	trans[0][69]	= settr(68,32,73,19,19,"D_STEP171", 1, 2, 0);
	T = trans[0][73] = settr(72,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(72,0,70,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(72,0,72,0,0,"IF", 0, 2, 0);
	trans[0][70]	= settr(69,0,253,20,20,"((((kind!=GET)&&(kind!=DEL))&&!(word)))", 0, 2, 0);
	trans[0][71]	= settr(70,0,253,1,0,"goto finish", 0, 2, 0);
	trans[0][74]	= settr(73,0,78,1,0,".(goto)", 0, 2, 0);
	trans[0][72]	= settr(71,0,78,2,0,"else", 0, 2, 0);
	T = trans[ 0][78] = settr(77,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(77,2,75,0,0,"ATOMIC", 1, 2, 0);
	trans[0][75]	= settr(74,4,79,21,21,"inside[id] = 1", 1, 2, 0); /* m: 76 -> 0,79 */
	reached0[76] = 1;
	trans[0][76]	= settr(0,0,0,0,0,"late[id] = 0",0,0,0);
	trans[0][77]	= settr(0,0,0,0,0,"img[0] = slot[0]",0,0,0);
	trans[0][79]	= settr(78,0,80,22,22,"img[1] = slot[1]", 1, 2, 0);
	trans[0][80]	= settr(79,0,84,23,23,"i = 0", 0, 2, 0);
	T = trans[0][84] = settr(83,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(83,0,81,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(83,0,83,0,0,"IF", 0, 2, 0);
	trans[0][81]	= settr(80,0,132,24,0,"((i==2))", 0, 2, 0);
	trans[0][82]	= settr(81,0,132,1,0,"goto absent", 0, 2, 0);
	trans[0][85]	= settr(84,0,86,1,0,".(goto)", 0, 2, 0); /* m: 86 -> 0,93 */
	reached0[86] = 1;
	trans[0][83]	= settr(82,0,86,2,0,"else", 0, 2, 0);
	trans[0][86]	= settr(85,0,93,25,25,"w = img[i]", 0, 2, 0);
	T = trans[0][93] = settr(92,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(92,0,87,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(92,0,89,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(92,0,92,0,0,"IF", 0, 2, 0);
	trans[0][87]	= settr(86,0,132,26,26,"((w==0))", 0, 2, 0);
	trans[0][88]	= settr(87,0,132,1,0,"goto absent", 0, 2, 0);
	trans[0][94]	= settr(93,0,95,1,0,".(goto)", 0, 2, 0);
	trans[0][89]	= settr(88,0,84,27,27,"(((w!=0)&&((((w>>5)&1)!=0)||((kind==GET)&&(w&128)))))", 0, 2, 0); /* m: 90 -> 84,0 */
	reached0[90] = 1;
	trans[0][90]	= settr(0,0,0,0,0,"i = (i+1)",0,0,0);
	trans[0][91]	= settr(90,0,84,1,0,"goto scan", 0, 2, 0);
	trans[0][92]	= settr(91,0,95,2,0,"else", 0, 2, 0);
	trans[0][95]	= settr(94,0,110,28,28,"c1 = block[(w&7)]", 1, 2, 0);
	T = trans[ 0][110] = settr(109,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(109,2,96,0,0,"ATOMIC", 1, 2, 0);
	trans[0][96]	= settr(95,2,102,29,29,"c2 = block[(w&7)]", 1, 2, 0);
	T = trans[0][102] = settr(101,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(101,2,97,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(101,2,99,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(101,2,101,0,0,"IF", 1, 2, 0);
	trans[0][97]	= settr(96,4,78,30,30,"((late[id]&&(slot[i]!=w)))", 1, 2, 0); /* m: 98 -> 78,0 */
	reached0[98] = 1;
	trans[0][98]	= settr(97,0,78,1,0,"goto again", 1, 2, 0);
	trans[0][103]	= settr(102,2,107,1,0,".(goto)", 1, 2, 0);
	trans[0][99]	= settr(98,2,100,31,0,"((late[id]&&(slot[i]==w)))", 1, 2, 0);
	trans[0][100]	= settr(99,2,107,1,0,"(1)", 1, 2, 0);
	trans[0][101]	= settr(100,2,107,2,0,"else", 1, 2, 0);
	T = trans[0][107] = settr(106,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(106,2,104,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(106,2,106,0,0,"IF", 1, 2, 0);
	trans[0][104]	= settr(103,4,78,32,32,"(((c1!=c2)||(((c1>>4)&3)!=((w>>3)&3))))", 1, 2, 0); /* m: 105 -> 78,0 */
	reached0[105] = 1;
	trans[0][105]	= settr(104,0,78,1,0,"goto again", 1, 2, 0);
	trans[0][108]	= settr(107,4,116,33,33,".(goto)", 1, 2, 0); /* m: 109 -> 0,116 */
	reached0[109] = 1;
	trans[0][106]	= settr(105,2,108,2,0,"else", 1, 2, 0);
	trans[0][109]	= settr(0,0,0,0,0,"inside[id] = 0",0,0,0);
	T = trans[0][116] = settr(115,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(115,0,111,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(115,0,115,0,0,"IF", 0, 2, 0);
	trans[0][111]	= settr(110,0,112,34,0,"((((c1>>3)&1)!=k))", 0, 2, 0);
	trans[0][112]	= settr(111,0,113,35,35,"inside[id] = 1", 1, 2, 0);
	trans[0][113]	= settr(112,0,84,36,36,"i = (i+1)", 0, 2, 0);
	trans[0][114]	= settr(113,0,84,1,0,"goto scan", 0, 2, 0);
	trans[0][117]	= settr(116,0,118,1,0,".(goto)", 0, 2, 0);
	trans[0][115]	= settr(114,0,118,2,0,"else", 0, 2, 0);
	trans[0][118]	= settr(117,0,129,37,37,"inserting = 0", 0, 2, 0);
	T = trans[0][129] = settr(128,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(128,0,119,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(128,0,122,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(128,0,125,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(128,0,128,0,0,"IF", 0, 2, 0);
	trans[0][119]	= settr(118,0,120,38,38,"((kind==GET))", 0, 2, 0);
	trans[0][120]	= settr(119,0,253,39,0,"assert((((c1&7)!=0)&&((seen[id]>>(c1&7))&1)))", 1, 2, 0);
	trans[0][121]	= settr(120,0,253,1,0,"goto finish", 0, 2, 0);
	trans[0][130]	= settr(129,0,142,1,0,".(goto)", 0, 2, 0);
	trans[0][122]	= settr(121,0,123,40,40,"(((kind==ADD)&&!((w&128))))", 0, 2, 0);
	trans[0][123]	= settr(122,0,253,41,0,"assert((seen[id]&254))", 1, 2, 0);
	trans[0][124]	= settr(123,0,253,1,0,"goto finish", 0, 2, 0);
	trans[0][125]	= settr(124,0,126,42,42,"((((kind==CAS)||(kind==DEL))&&(w&128)))", 0, 2, 0);
	trans[0][126]	= settr(125,0,253,43,0,"assert(((seen[id]>>0)&1))", 1, 2, 0);
	trans[0][127]	= settr(126,0,253,1,0,"goto finish", 0, 2, 0);
	trans[0][128]	= settr(127,0,142,2,0,"else", 0, 2, 0);
	trans[0][131]	= settr(130,0,142,1,0,"goto swap", 0, 2, 0);
	trans[0][132]	= settr(131,0,140,44,44,"inside[id] = 0", 1, 2, 0);
	T = trans[0][140] = settr(139,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(139,0,133,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(139,0,137,0,0,"IF", 0, 2, 0);
	trans[0][133]	= settr(132,0,142,45,45,"(((kind==PUT)||(kind==ADD)))", 0, 2, 0); /* m: 134 -> 142,0 */
	reached0[134] = 1;
	trans[0][134]	= settr(0,0,0,0,0,"assert((i<2))",0,0,0);
	trans[0][135]	= settr(0,0,0,0,0,"inserting = 1",0,0,0);
	trans[0][136]	= settr(0,0,0,0,0,"w = 0",0,0,0);
	trans[0][141]	= settr(140,0,142,1,0,".(goto)", 0, 2, 0);
	trans[0][137]	= settr(136,0,138,2,0,"else", 0, 2, 0);
	trans[0][138]	= settr(137,0,253,46,0,"assert(((seen[id]>>0)&1))", 1, 2, 0);
	trans[0][139]	= settr(138,0,253,1,0,"goto finish", 0, 2, 0);
	trans[0][142]	= settr(141,0,218,47,47,"inside[id] = 0", 1, 2, 0);
	T = trans[ 0][218] = settr(217,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(217,2,143,0,0,"ATOMIC", 1, 2, 0);
	trans[0][143]	= settr(142,2,216,48,48,"found = slot[i]", 1, 2, 0);
	T = trans[0][216] = settr(215,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(215,2,144,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(215,2,167,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(215,2,215,0,0,"IF", 1, 2, 0);
	trans[0][144]	= settr(143,2,165,49,49,"(((found==w)&&(kind==DEL)))", 1, 2, 0); /* m: 145 -> 165,0 */
	reached0[145] = 1;
	trans[0][145]	= settr(0,0,0,0,0,"assert((current[k]!=0))",0,0,0);
	trans[0][146]	= settr(0,0,0,0,0,"slot[i] = ((w|128)|64)",0,0,0);
	trans[0][147]	= settr(0,0,0,0,0,"blind_writes[k] = (blind_writes[k]+1)",0,0,0);
	trans[0][148]	= settr(0,0,0,0,0,"deleted[k] = (deleted[k]+1)",0,0,0);
	trans[0][149]	= settr(0,0,0,0,0,"assert((deleted[k]<=created[k]))",0,0,0);
	T = trans[ 0][165] = settr(164,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(164,0,150,0,0,"sub-sequence", 1, 2, 0);
	trans[0][150]	= settr(149,2,161,50,50,"current[k] = 0", 1, 2, 0); /* m: 151 -> 0,161 */
	reached0[151] = 1;
	trans[0][151]	= settr(0,0,0,0,0,"n = 0",0,0,0);
	trans[0][162]	= settr(161,2,161,1,0,".(goto)", 1, 2, 0);
	T = trans[0][161] = settr(160,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(160,2,152,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(160,2,159,0,0,"DO", 1, 2, 0);
	trans[0][152]	= settr(151,2,156,51,0,"((n<=(3-1)))", 1, 2, 0);
	T = trans[0][156] = settr(155,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(155,2,153,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(155,2,155,0,0,"IF", 1, 2, 0);
	trans[0][153]	= settr(152,2,161,52,52,"((asked[n]==(k+1)))", 1, 2, 0); /* m: 154 -> 161,0 */
	reached0[154] = 1;
	trans[0][154]	= settr(0,0,0,0,0,"seen[n] = (seen[n]|(1<<0))",0,0,0);
	trans[0][157]	= settr(156,2,158,1,0,".(goto)", 1, 2, 0); /* m: 158 -> 0,161 */
	reached0[158] = 1;
	trans[0][155]	= settr(154,2,158,2,0,"else", 1, 2, 0);
	trans[0][158]	= settr(157,2,161,53,53,"n = (n+1)", 1, 2, 0);
	trans[0][159]	= settr(158,2,164,2,0,"else", 1, 2, 0);
	trans[0][160]	= settr(159,2,164,1,0,"goto :b1", 1, 2, 0); /* m: 164 -> 0,253 */
	reached0[164] = 1;
	trans[0][163]	= settr(162,2,164,1,0,"break", 1, 2, 0);
	trans[0][164]	= settr(163,4,253,54,54,"n = 0", 1, 2, 0); /* m: 166 -> 0,253 */
	reached0[166] = 1;
	trans[0][166]	= settr(165,0,253,1,0,"goto finish", 1, 2, 0);
	trans[0][217]	= settr(216,0,227,1,0,".(goto)", 1, 2, 0);
	trans[0][167]	= settr(166,2,188,55,55,"(((found==w)&&(kind!=DEL)))", 1, 2, 0); /* m: 168 -> 188,0 */
	reached0[168] = 1;
	trans[0][168]	= settr(0,0,0,0,0,"slot[i] = word",0,0,0);
	trans[0][169]	= settr(0,0,0,0,0,"assert(((kind!=ADD)||(current[k]==0)))",0,0,0);
	trans[0][170]	= settr(0,0,0,0,0,"assert(((kind!=CAS)||(current[k]==(c1&7))))",0,0,0);
	trans[0][171]	= settr(0,0,0,0,0,"blind_writes[k] = (blind_writes[k]+(kind==PUT))",0,0,0);
	trans[0][172]	= settr(0,0,0,0,0,"created[k] = (created[k]+1)",0,0,0);
	T = trans[ 0][188] = settr(187,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(187,0,173,0,0,"sub-sequence", 1, 2, 0);
	trans[0][173]	= settr(172,2,184,56,56,"current[k] = value", 1, 2, 0); /* m: 174 -> 0,184 */
	reached0[174] = 1;
	trans[0][174]	= settr(0,0,0,0,0,"n = 0",0,0,0);
	trans[0][185]	= settr(184,2,184,1,0,".(goto)", 1, 2, 0);
	T = trans[0][184] = settr(183,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(183,2,175,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(183,2,182,0,0,"DO", 1, 2, 0);
	trans[0][175]	= settr(174,2,179,57,0,"((n<=(3-1)))", 1, 2, 0);
	T = trans[0][179] = settr(178,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(178,2,176,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(178,2,178,0,0,"IF", 1, 2, 0);
	trans[0][176]	= settr(175,2,184,58,58,"((asked[n]==(k+1)))", 1, 2, 0); /* m: 177 -> 184,0 */
	reached0[177] = 1;
	trans[0][177]	= settr(0,0,0,0,0,"seen[n] = (seen[n]|(1<<value))",0,0,0);
	trans[0][180]	= settr(179,2,181,1,0,".(goto)", 1, 2, 0); /* m: 181 -> 0,184 */
	reached0[181] = 1;
	trans[0][178]	= settr(177,2,181,2,0,"else", 1, 2, 0);
	trans[0][181]	= settr(180,2,184,59,59,"n = (n+1)", 1, 2, 0);
	trans[0][182]	= settr(181,2,187,2,0,"else", 1, 2, 0);
	trans[0][183]	= settr(182,2,187,1,0,"goto :b2", 1, 2, 0); /* m: 187 -> 0,212 */
	reached0[187] = 1;
	trans[0][186]	= settr(185,2,187,1,0,"break", 1, 2, 0);
	trans[0][187]	= settr(186,2,212,60,60,"n = 0", 1, 2, 0); /* m: 189 -> 0,212 */
	reached0[189] = 1;
	trans[0][189]	= settr(0,0,0,0,0,"mine = 0",0,0,0);
	T = trans[0][212] = settr(211,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(211,2,190,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(211,2,202,0,0,"IF", 1, 2, 0);
	trans[0][190]	= settr(189,2,201,61,61,"(inserting)", 1, 2, 0);
	T = trans[ 0][201] = settr(200,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(200,0,191,0,0,"sub-sequence", 1, 2, 0);
	trans[0][191]	= settr(190,2,197,62,62,"n = 0", 1, 2, 0);
	trans[0][198]	= settr(197,2,197,1,0,".(goto)", 1, 2, 0);
	T = trans[0][197] = settr(196,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(196,2,192,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(196,2,195,0,0,"DO", 1, 2, 0);
	trans[0][192]	= settr(191,2,197,63,63,"((n<=(2-1)))", 1, 2, 0); /* m: 193 -> 197,0 */
	reached0[193] = 1;
	trans[0][193]	= settr(0,0,0,0,0,"assert((((n==i)||(slot[n]==0))||(((block[(slot[n]&7)]>>3)&1)!=k)))",0,0,0);
	trans[0][194]	= settr(0,0,0,0,0,"n = (n+1)",0,0,0);
	trans[0][195]	= settr(194,2,200,2,0,"else", 1, 2, 0);
	trans[0][196]	= settr(195,2,200,1,0,"goto :b3", 1, 2, 0); /* m: 200 -> 0,253 */
	reached0[200] = 1;
	trans[0][199]	= settr(198,2,200,1,0,"break", 1, 2, 0);
	trans[0][200]	= settr(199,4,253,64,64,"n = 0", 1, 2, 0); /* m: 213 -> 0,253 */
	reached0[213] = 1;
	trans[0][213]	= settr(212,2,214,1,0,".(goto)", 1, 2, 0); /* m: 214 -> 0,253 */
	reached0[214] = 1;
	trans[0][202]	= settr(201,2,211,2,0,"else", 1, 2, 0);
	T = trans[ 0][211] = settr(210,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(210,0,203,0,0,"sub-sequence", 1, 2, 0);
	trans[0][203]	= settr(202,2,209,65,65,"limbo = (w&7)", 1, 2, 0); /* m: 204 -> 0,209 */
	reached0[204] = 1;
	trans[0][204]	= settr(0,0,0,0,0,"limbo_inc = (((w>>3)&3)+1)",0,0,0);
	T = trans[0][209] = settr(208,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(208,2,205,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(208,2,208,0,0,"IF", 1, 2, 0);
	trans[0][205]	= settr(204,4,253,66,66,"((limbo_inc>=4))", 1, 2, 0); /* m: 206 -> 253,0 */
	reached0[206] = 1;
	trans[0][206]	= settr(0,0,0,0,0,"limbo = 0",0,0,0);
	trans[0][207]	= settr(0,0,0,0,0,"limbo_inc = 0",0,0,0);
	trans[0][210]	= settr(209,2,213,1,0,".(goto)", 1, 2, 0); /* m: 213 -> 0,253 */
	reached0[213] = 1;
	trans[0][208]	= settr(207,2,213,2,0,"else", 1, 2, 0);
	trans[0][214]	= settr(213,0,253,67,67,"goto finish", 1, 2, 0);
	trans[0][215]	= settr(214,2,217,2,0,"else", 1, 2, 0);
	T = trans[0][227] = settr(226,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(226,0,219,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(226,0,226,0,0,"IF", 0, 2, 0);
	trans[0][219]	= settr(218,0,224,68,68,"(inserting)", 0, 2, 0); /* m: 220 -> 224,0 */
	reached0[220] = 1;
	trans[0][220]	= settr(0,0,0,0,0,"img[i] = found",0,0,0);
	trans[0][221]	= settr(0,0,0,0,0,"inserting = 0",0,0,0);
/*->*/	trans[0][224]	= settr(223,32,84,69,69,"D_STEP349", 1, 2, 0);
	trans[0][225]	= settr(224,0,84,1,0,"goto scan", 0, 2, 0);
	trans[0][228]	= settr(227,0,236,1,0,".(goto)", 0, 2, 0);
	trans[0][226]	= settr(225,0,236,2,0,"else", 0, 2, 0);
	T = trans[0][236] = settr(235,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(235,0,229,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(235,0,231,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(235,0,233,0,0,"IF", 0, 2, 0);
	trans[0][229]	= settr(228,0,238,70,70,"(((kind==PUT)&&(found&64)))", 0, 2, 0);
	trans[0][230]	= settr(229,0,238,1,0,"goto absorbed", 0, 2, 0);
	trans[0][237]	= settr(236,0,238,1,0,".(goto)", 0, 2, 0);
	trans[0][231]	= settr(230,0,253,71,71,"(((kind==CAS)&&!((found&128))))", 0, 2, 0);
	trans[0][232]	= settr(231,0,253,1,0,"goto finish", 0, 2, 0);
	trans[0][233]	= settr(232,0,234,2,0,"else", 0, 2, 0);
	trans[0][234]	= settr(233,0,118,72,72,"w = found", 0, 2, 0);
	trans[0][235]	= settr(234,0,118,1,0,"goto decide", 0, 2, 0);
	trans[0][238]	= settr(237,0,253,73,0,"assert((blind_writes[k]>blind_before))", 1, 2, 0);
	T = trans[ 0][253] = settr(252,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(252,2,239,0,0,"ATOMIC", 1, 2, 0);
	trans[0][239]	= settr(238,0,12,74,74,"asked[id] = 0", 1, 2, 0); /* m: 240 -> 0,12 */
	reached0[240] = 1;
	trans[0][240]	= settr(0,0,0,0,0,"inside[id] = 0",0,0,0);
	trans[0][241]	= settr(0,0,0,0,0,"late[id] = 0",0,0,0);
	trans[0][242]	= settr(0,0,0,0,0,"seen[id] = 0",0,0,0);
	trans[0][243]	= settr(0,0,0,0,0,"w = 0",0,0,0);
	trans[0][244]	= settr(0,0,0,0,0,"c1 = 0",0,0,0);
	trans[0][245]	= settr(0,0,0,0,0,"c2 = 0",0,0,0);
	trans[0][246]	= settr(0,0,0,0,0,"found = 0",0,0,0);
	trans[0][247]	= settr(0,0,0,0,0,"word = 0",0,0,0);
	trans[0][248]	= settr(0,0,0,0,0,"value = 0",0,0,0);
	trans[0][249]	= settr(0,0,0,0,0,"i = 0",0,0,0);
	trans[0][250]	= settr(0,0,0,0,0,"img[0] = 0",0,0,0);
	trans[0][251]	= settr(0,0,0,0,0,"img[1] = 0",0,0,0);
	trans[0][252]	= settr(0,0,0,0,0,"inserting = 0",0,0,0);
	trans[0][254]	= settr(253,0,12,1,0,"goto next", 0, 2, 0);
	trans[0][255]	= settr(254,0,256,1,0,"(1)", 0, 2, 0);
	trans[0][256]	= settr(255,0,0,75,75,"-end-", 0, 3500, 0);
	/* np_ demon: */
	trans[_NP_] = (Trans **) emalloc(3*sizeof(Trans *));
	T = trans[_NP_][0] = settr(9997,0,1,_T5,0,"(np_)", 1,2,0);
	    T->nxt	  = settr(9998,0,0,_T2,0,"(1)",   0,2,0);
	T = trans[_NP_][1] = settr(9999,0,1,_T5,0,"(np_)", 1,2,0);
}

Trans *
settr(	int t_id, int a, int b, int c, int d,
	char *t, int g, int tpe0, int tpe1)
{	Trans *tmp = (Trans *) emalloc(sizeof(Trans));

	tmp->atom  = a&(6|32);	/* only (2|8|32) have meaning */
	if (!g) tmp->atom |= 8;	/* no global references */
	tmp->st    = b;
	tmp->tpe[0] = tpe0;
	tmp->tpe[1] = tpe1;
	tmp->tp    = t;
	tmp->t_id  = t_id;
	tmp->forw  = c;
	tmp->back  = d;
	return tmp;
}

Trans *
cpytr(Trans *a)
{	Trans *tmp = (Trans *) emalloc(sizeof(Trans));

	int i;
	tmp->atom  = a->atom;
	tmp->st    = a->st;
#ifdef HAS_UNLESS
	tmp->e_trans = a->e_trans;
	for (i = 0; i < HAS_UNLESS; i++)
		tmp->escp[i] = a->escp[i];
#endif
	tmp->tpe[0] = a->tpe[0];
	tmp->tpe[1] = a->tpe[1];
	for (i = 0; i < 6; i++)
	{	tmp->qu[i] = a->qu[i];
		tmp->ty[i] = a->ty[i];
	}
	tmp->tp    = (char *) emalloc(strlen(a->tp)+1);
	strcpy(tmp->tp, a->tp);
	tmp->t_id  = a->t_id;
	tmp->forw  = a->forw;
	tmp->back  = a->back;
	return tmp;
}

#ifndef NOREDUCE
int
srinc_set(int n)
{	if (n <= 2) return LOCAL;
	if (n <= 2+  DELTA) return Q_FULL_F; /* 's' or nfull  */
	if (n <= 2+2*DELTA) return Q_EMPT_F; /* 'r' or nempty */
	if (n <= 2+3*DELTA) return Q_EMPT_T; /* empty */
	if (n <= 2+4*DELTA) return Q_FULL_T; /* full  */
	if (n ==   5*DELTA) return GLOBAL;
	if (n ==   6*DELTA) return TIMEOUT_F;
	if (n ==   7*DELTA) return ALPHA_F;
	Uerror("cannot happen srinc_class");
	return BAD;
}
int
srunc(int n, int m)
{	switch(m) {
	case Q_FULL_F: return n-2;
	case Q_EMPT_F: return n-2-DELTA;
	case Q_EMPT_T: return n-2-2*DELTA;
	case Q_FULL_T: return n-2-3*DELTA;
	case ALPHA_F:
	case TIMEOUT_F: return 257; /* non-zero, and > MAXQ */
	}
	Uerror("cannot happen srunc");
	return 0;
}
#endif
int cnt;
#ifdef HAS_UNLESS
int
isthere(Trans *a, int b)
{	Trans *t;
	for (t = a; t; t = t->nxt)
		if (t->t_id == b)
			return 1;
	return 0;
}
#endif
#ifndef NOREDUCE
int
mark_safety(Trans *t) /* for conditional safety */
{	int g = 0, i, j, k;

	if (!t) return 0;
	if (t->qu[0])
		return (t->qu[1])?2:1;	/* marked */

	for (i = 0; i < 2; i++)
	{	j = srinc_set(t->tpe[i]);
		if (j >= GLOBAL && j != ALPHA_F)
			return -1;
		if (j != LOCAL)
		{	k = srunc(t->tpe[i], j);
			if (g == 0
			||  t->qu[0] != k
			||  t->ty[0] != j)
			{	t->qu[g] = k;
				t->ty[g] = j;
				g++;
	}	}	}
	return g;
}
#endif
void
retrans(int n, int m, int is, short srcln[], uchar reach[], uchar lpstate[])
	/* process n, with m states, is=initial state */
{	Trans *T0, *T1, *T2, *T3;
	Trans *T4, *T5; /* t_reverse or has_unless */
	int i;
#if defined(HAS_UNLESS) || !defined(NOREDUCE)
	int k;
#endif
#ifndef NOREDUCE
	int g, h, j, aa;
#endif
#ifdef HAS_UNLESS
	int p;
#endif
	if (state_tables >= 4)
	{	printf("STEP 1 %s\n", 
			procname[n]);
		for (i = 1; i < m; i++)
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			crack(n, i, T0, srcln);
		return;
	}
	do {
		for (i = 1, cnt = 0; i < m; i++)
		{	T2 = trans[n][i];
			T1 = T2?T2->nxt:(Trans *)0;
/* prescan: */		for (T0 = T1; T0; T0 = T0->nxt)
/* choice in choice */	{	if (T0->st && trans[n][T0->st]
				&&  trans[n][T0->st]->nxt)
					break;
			}
#if 0
		if (T0)
		printf("\tstate %d / %d: choice in choice\n",
		i, T0->st);
#endif
			if (T0)
			for (T0 = T1; T0; T0 = T0->nxt)
			{	T3 = trans[n][T0->st];
				if (!T3->nxt)
				{	T2->nxt = cpytr(T0);
					T2 = T2->nxt;
					imed(T2, T0->st, n, i);
					continue;
				}
				do {	T3 = T3->nxt;
					T2->nxt = cpytr(T3);
					T2 = T2->nxt;
					imed(T2, T0->st, n, i);
				} while (T3->nxt);
				cnt++;
			}
		}
	} while (cnt);
	if (state_tables >= 3)
	{	printf("STEP 2 %s\n", 
			procname[n]);
		for (i = 1; i < m; i++)
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			crack(n, i, T0, srcln);
		return;
	}
	for (i = 1; i < m; i++)
	{	if (trans[n][i] && trans[n][i]->nxt) /* optimize */
		{	T1 = trans[n][i]->nxt;
#if 0
			printf("\t\tpull %d (%d) to %d\n",
			T1->st, T1->forw, i);
#endif
			srcln[i] = srcln[T1->st];	/* Oyvind Teig, 5.2.0 */

			if (!trans[n][T1->st]) continue;
			T0 = cpytr(trans[n][T1->st]);
			trans[n][i] = T0;
			reach[T1->st] = 1;
			imed(T0, T1->st, n, i);
			for (T1 = T1->nxt; T1; T1 = T1->nxt)
			{
#if 0
			printf("\t\tpull %d (%d) to %d\n",
				T1->st, T1->forw, i);
#endif
		/*		srcln[i] = srcln[T1->st];  gh: not useful */
				if (!trans[n][T1->st]) continue;
				T0->nxt = cpytr(trans[n][T1->st]);
				T0 = T0->nxt;
				reach[T1->st] = 1;
				imed(T0, T1->st, n, i);
	}	}	}
	if (state_tables >= 2)
	{	printf("STEP 3 %s\n", 
			procname[n]);
		for (i = 1; i < m; i++)
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			crack(n, i, T0, srcln);
		return;
	}
#ifdef HAS_UNLESS
	for (i = 1; i < m; i++)
	{	if (!trans[n][i]) continue;
		/* check for each state i if an
		 * escape to some state p is defined
		 * if so, copy and mark p's transitions
		 * and prepend them to the transition-
		 * list of state i
		 */
	 if (!like_java) /* the default */
	 {	for (T0 = trans[n][i]; T0; T0 = T0->nxt)
		for (k = HAS_UNLESS-1; k >= 0; k--)
		{	if (p = T0->escp[k])
			for (T1 = trans[n][p]; T1; T1 = T1->nxt)
			{	if (isthere(trans[n][i], T1->t_id))
					continue;
				T2 = cpytr(T1);
				T2->e_trans = p;
				T2->nxt = trans[n][i];
				trans[n][i] = T2;
		}	}
	 } else /* outermost unless checked first */
	 {	T4 = T3 = (Trans *) 0;
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
		for (k = HAS_UNLESS-1; k >= 0; k--)
		{	if (p = T0->escp[k])
			for (T1 = trans[n][p]; T1; T1 = T1->nxt)
			{	if (isthere(trans[n][i], T1->t_id))
					continue;
				T2 = cpytr(T1);
				T2->nxt = (Trans *) 0;
				T2->e_trans = p;
				if (T3)	T3->nxt = T2;
				else	T4 = T2;
				T3 = T2;
		}	}
		if (T4)
		{	T3->nxt = trans[n][i];
			trans[n][i] = T4;
		}
	 }
	}
#endif
#ifndef NOREDUCE
	for (i = 1; i < m; i++)
	{	if (a_cycles)
		{ /* moves through these states are visible */
	#if PROG_LAB>0 && defined(HAS_NP)
			if (progstate[n][i])
				goto degrade;
			for (T1 = trans[n][i]; T1; T1 = T1->nxt)
				if (progstate[n][T1->st])
					goto degrade;
	#endif
			if (accpstate[n][i] || visstate[n][i])
				goto degrade;
			for (T1 = trans[n][i]; T1; T1 = T1->nxt)
				if (accpstate[n][T1->st])
					goto degrade;
		}
		T1 = trans[n][i];
		if (!T1) continue;
		g = mark_safety(T1);	/* V3.3.1 */
		if (g < 0) goto degrade; /* global */
		/* check if mixing of guards preserves reduction */
		if (T1->nxt)
		{	k = 0;
			for (T0 = T1; T0; T0 = T0->nxt)
			{	if (!(T0->atom&8))
					goto degrade;
				for (aa = 0; aa < 2; aa++)
				{	j = srinc_set(T0->tpe[aa]);
					if (j >= GLOBAL && j != ALPHA_F)
						goto degrade;
					if (T0->tpe[aa]
					&&  T0->tpe[aa]
					!=  T1->tpe[0])
						k = 1;
			}	}
			/* g = 0;	V3.3.1 */
			if (k)	/* non-uniform selection */
			for (T0 = T1; T0; T0 = T0->nxt)
			for (aa = 0; aa < 2; aa++)
			{	j = srinc_set(T0->tpe[aa]);
				if (j != LOCAL)
				{	k = srunc(T0->tpe[aa], j);
					for (h = 0; h < 6; h++)
						if (T1->qu[h] == k
						&&  T1->ty[h] == j)
							break;
					if (h >= 6)
					{	T1->qu[g%6] = k;
						T1->ty[g%6] = j;
						g++;
			}	}	}
			if (g > 6)
			{	T1->qu[0] = 0;	/* turn it off */
				printf("pan: warning, line %d, ",
					srcln[i]);
			 	printf("too many stmnt types (%d)",
					g);
			  	printf(" in selection\n");
			  goto degrade;
			}
		}
		/* mark all options global if >=1 is global */
		for (T1 = trans[n][i]; T1; T1 = T1->nxt)
			if (!(T1->atom&8)) break;
		if (T1)
degrade:	for (T1 = trans[n][i]; T1; T1 = T1->nxt)
			T1->atom &= ~8;	/* mark as unsafe */
		/* can only mix 'r's or 's's if on same chan */
		/* and not mixed with other local operations */
		T1 = trans[n][i];
		if (!T1 || T1->qu[0]) continue;
		j = T1->tpe[0];
		if (T1->nxt && T1->atom&8)
		{ if (j == 5*DELTA)
		  {	printf("warning: line %d ", srcln[i]);
			printf("mixed condition ");
			printf("(defeats reduction)\n");
			goto degrade;
		  }
		  for (T0 = T1; T0; T0 = T0->nxt)
		  for (aa = 0; aa < 2; aa++)
		  if  (T0->tpe[aa] && T0->tpe[aa] != j)
		  {	printf("warning: line %d ", srcln[i]);
			printf("[%d-%d] mixed %stion ",
				T0->tpe[aa], j, 
				(j==5*DELTA)?"condi":"selec");
			printf("(defeats reduction)\n");
			printf("	'%s' <-> '%s'\n",
				T1->tp, T0->tp);
			goto degrade;
		} }
	}
#endif
	for (i = 1; i < m; i++)
	{	T2 = trans[n][i];
		if (!T2
		||  T2->nxt
		||  strncmp(T2->tp, ".(goto)", 7)
		||  !stopstate[n][i])
			continue;
		stopstate[n][T2->st] = 1;
	}
	if (state_tables && !verbose)
	{	if (dodot)
		{	char buf[256], *q = buf, *p = procname[n];
			while (*p != '\0')
			{	if (*p != ':')
				{	*q++ = *p;
				}
				p++;
			}
			*q = '\0';
			printf("digraph ");
			switch (Btypes[n]) {
			case I_PROC:  printf("init {\n"); break;
			case N_CLAIM: printf("claim_%s {\n", buf); break;
			case E_TRACE: printf("notrace {\n"); break;
			case N_TRACE: printf("trace {\n"); break;
			default:      printf("p_%s {\n", buf); break;
			}
			printf("size=\"8,10\";\n");
			printf("  GT [shape=box,style=dotted,label=\"%s\"];\n", buf);
			printf("  GT -> S%d;\n", is);
		} else
		{	switch (Btypes[n]) {
			case I_PROC:  printf("init\n"); break;
			case N_CLAIM: printf("claim %s\n", procname[n]); break;
			case E_TRACE: printf("notrace assertion\n"); break;
			case N_TRACE: printf("trace assertion\n"); break;
			default:      printf("proctype %s\n", procname[n]); break;
		}	}
		for (i = 1; i < m; i++)
		{	reach[i] = 1;
		}
		tagtable(n, m, is, srcln, reach);
		if (dodot) printf("}\n");
	} else
	for (i = 1; i < m; i++)
	{	int nrelse;
		if (Btypes[n] != N_CLAIM)
		{	for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			{	if (T0->st == i
				&& strcmp(T0->tp, "(1)") == 0)
				{	printf("error: proctype '%s' ",
						procname[n]);
		  			printf("line %d, state %d: has un",
						srcln[i], i);
					printf("conditional self-loop\n");
					pan_exit(1);
		}	}	}
		nrelse = 0;
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
		{	if (strcmp(T0->tp, "else") == 0)
				nrelse++;
		}
		if (nrelse > 1)
		{	printf("error: proctype '%s' state",
				procname[n]);
		  	printf(" %d, inherits %d", i, nrelse);
		  	printf(" 'else' stmnts\n");
			pan_exit(1);
	}	}
#if !defined(LOOPSTATE) && !defined(BFS_PAR)
	if (state_tables)
#endif
	do_dfs(n, m, is, srcln, reach, lpstate);

	if (!t_reverse)
	{	return;
	}
	/* process n, with m states, is=initial state -- reverse list */
	if (!state_tables && Btypes[n] != N_CLAIM)
	{	for (i = 1; i < m; i++)
		{	Trans *Tx = (Trans *) 0; /* list of escapes */
			Trans *Ty = (Trans *) 0; /* its tail element */
			T1 = (Trans *) 0; /* reversed list */
			T2 = (Trans *) 0; /* its tail */
			T3 = (Trans *) 0; /* remembers possible 'else' */

			/* find unless-escapes, they should go first */
			T4 = T5 = T0 = trans[n][i];
	#ifdef HAS_UNLESS
			while (T4 && T4->e_trans) /* escapes are first in orig list */
			{	T5 = T4;	  /* remember predecessor */
				T4 = T4->nxt;
			}
	#endif
			/* T4 points to first non-escape, T5 to its parent, T0 to original list */
			if (T4 != T0)		 /* there was at least one escape */
			{	T3 = T5->nxt;		 /* start of non-escapes */
				T5->nxt = (Trans *) 0;	 /* separate */
				Tx = T0;		 /* start of the escapes */
				Ty = T5;		 /* its tail */
				T0 = T3;		 /* the rest, to be reversed */
			}
			/* T0 points to first non-escape, Tx to the list of escapes, Ty to its tail */

			/* first tail-add non-escape transitions, reversed */
			T3 = (Trans *) 0;
			for (T5 = T0; T5; T5 = T4)
			{	T4 = T5->nxt;
	#ifdef HAS_UNLESS
				if (T5->e_trans)
				{	printf("error: cannot happen!\n");
					continue;
				}
	#endif
				if (strcmp(T5->tp, "else") == 0)
				{	T3 = T5;
					T5->nxt = (Trans *) 0;
				} else
				{	T5->nxt = T1;
					if (!T1) { T2 = T5; }
					T1 = T5;
			}	}
			/* T3 points to a possible else, which is removed from the list */
			/* T1 points to the reversed list so far (without escapes) */
			/* T2 points to the tail element -- where the else should go */
			if (T2 && T3)
			{	T2->nxt = T3;	/* add else */
			} else
			{	if (T3) /* there was an else, but there's no tail */
				{	if (!T1)	/* and no reversed list */
					{	T1 = T3; /* odd, but possible */
					} else		/* even stranger */
					{	T1->nxt = T3;
			}	}	}

			/* add in the escapes, to that they appear at the front */
			if (Tx && Ty) { Ty->nxt = T1; T1 = Tx; }

			trans[n][i] = T1;
			/* reversed, with escapes first and else last */
	}	}
	if (state_tables && verbose)
	{	printf("FINAL proctype %s\n", 
			procname[n]);
		for (i = 1; i < m; i++)
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			crack(n, i, T0, srcln);
	}
}
void
imed(Trans *T, int v, int n, int j)	/* set intermediate state */
{	progstate[n][T->st] |= progstate[n][v];
	accpstate[n][T->st] |= accpstate[n][v];
	stopstate[n][T->st] |= stopstate[n][v];
	mapstate[n][j] = T->st;
}
void
tagtable(int n, int m, int is, short srcln[], uchar reach[])
{	Trans *z;

	if (is >= m || !trans[n][is]
	||  is <= 0 || reach[is] == 0)
		return;
	reach[is] = 0;
	if (state_tables)
	for (z = trans[n][is]; z; z = z->nxt)
	{	if (dodot)
			dot_crack(n, is, z);
		else
			crack(n, is, z, srcln);
	}

	for (z = trans[n][is]; z; z = z->nxt)
	{
#ifdef HAS_UNLESS
		int i, j;
#endif
		tagtable(n, m, z->st, srcln, reach);
#ifdef HAS_UNLESS
		for (i = 0; i < HAS_UNLESS; i++)
		{	j = trans[n][is]->escp[i];
			if (!j) break;
			tagtable(n, m, j, srcln, reach);
		}
#endif
	}
}

extern Trans *t_id_lkup[];

void
dfs_table(int n, int m, int is, short srcln[], uchar reach[], uchar lpstate[])
{	Trans *z;

	if (is >= m || is <= 0 || !trans[n][is])
		return;
	if ((reach[is] & (4|8|16)) != 0)
	{	if ((reach[is] & (8|16)) == 16)	/* on stack, not yet recorded */
		{	lpstate[is] = 1;
			reach[is] |= 8; /* recorded */
			if (state_tables && verbose)
			{	printf("state %d line %d is a loopstate\n", is, srcln[is]);
		}	}
		return;
	}
	reach[is] |= (4|16);	/* visited | onstack */
	for (z = trans[n][is]; z; z = z->nxt)
	{	t_id_lkup[z->t_id] = z;
#ifdef HAS_UNLESS
		int i, j;
#endif
		dfs_table(n, m, z->st, srcln, reach, lpstate);
#ifdef HAS_UNLESS
		for (i = 0; i < HAS_UNLESS; i++)
		{	j = trans[n][is]->escp[i];
			if (!j) break;
			dfs_table(n, m, j, srcln, reach, lpstate);
		}
#endif
	}
	reach[is] &= ~16; /* no longer on stack */
}
void
do_dfs(int n, int m, int is, short srcln[], uchar reach[], uchar lpstate[])
{	int i;
	dfs_table(n, m, is, srcln, reach, lpstate);
	for (i = 0; i < m; i++)
		reach[i] &= ~(4|8|16);
}
void
crack(int n, int j, Trans *z, short srcln[])
{	int i;

	if (!z) return;
	printf("	state %3d -(tr %3d)-> state %3d  ",
		j, z->forw, z->st);
	printf("[id %3d tp %3d", z->t_id, z->tpe[0]);
	if (z->tpe[1]) printf(",%d", z->tpe[1]);
#ifdef HAS_UNLESS
	if (z->e_trans)
		printf(" org %3d", z->e_trans);
	else if (state_tables >= 2)
	for (i = 0; i < HAS_UNLESS; i++)
	{	if (!z->escp[i]) break;
		printf(" esc %d", z->escp[i]);
	}
#endif
	printf("]");
	printf(" [%s%s%s%s%s] %s:%d => ",
		z->atom&6?"A":z->atom&32?"D":"-",
		accpstate[n][j]?"a" :"-",
		stopstate[n][j]?"e" : "-",
		progstate[n][j]?"p" : "-",
		z->atom & 8 ?"L":"G",
		PanSource, srcln[j]);
	for (i = 0; z->tp[i]; i++)
		if (z->tp[i] == '\n')
			printf("\\n");
		else
			putchar(z->tp[i]);
	if (verbose && z->qu[0])
	{	printf("\t[");
		for (i = 0; i < 6; i++)
			if (z->qu[i])
				printf("(%d,%d)",
				z->qu[i], z->ty[i]);
		printf("]");
	}
	printf("\n");
	fflush(stdout);
}
/* spin -a m.pml; cc -o pan pan.c; ./pan -D | dot -Tps > foo.ps; ps2pdf foo.ps */
void
dot_crack(int n, int j, Trans *z)
{	int i;

	if (!z) return;
	printf("	S%d -> S%d  [color=black", j, z->st);

	if (z->atom&6) printf(",style=dashed");
	else if (z->atom&32) printf(",style=dotted");
	else if (z->atom&8) printf(",style=solid");
	else printf(",style=bold");

	printf(",label=\"");
	for (i = 0; z->tp[i]; i++)
	{	if (z->tp[i] == '\\'
		&&  z->tp[i+1] == 'n')
		{	i++; printf(" ");
		} else
		{	putchar(z->tp[i]);
	}	}
	printf("\"];\n");
	if (accpstate[n][j]) printf("  S%d [color=red,style=bold];\n", j);
	else if (progstate[n][j]) printf("  S%d [color=green,style=bold];\n", j);
	if (stopstate[n][j]) printf("  S%d [color=blue,style=bold,shape=box];\n", j);
}

#ifdef VAR_RANGES
#define BYTESIZE	32	/* 2^8 : 2^3 = 256:8 = 32 */

typedef struct Vr_Ptr {
	char	*nm;
	uchar	vals[BYTESIZE];
	struct Vr_Ptr *nxt;
} Vr_Ptr;
Vr_Ptr *ranges = (Vr_Ptr *) 0;

void
logval(char *s, int v)
{	Vr_Ptr *tmp;

	if (v<0 || v > 255) return;
	for (tmp = ranges; tmp; tmp = tmp->nxt)
		if (!strcmp(tmp->nm, s))
			goto found;
	tmp = (Vr_Ptr *) emalloc(sizeof(Vr_Ptr));
	tmp->nxt = ranges;
	ranges = tmp;
	tmp->nm = s;
found:
	tmp->vals[(v)/8] |= 1<<((v)%8);
}

void
dumpval(uchar X[], int range)
{	int w, x, i, j = -1;

	for (w = i = 0; w < range; w++)
	for (x = 0; x < 8; x++, i++)
	{
from:		if ((X[w] & (1<<x)))
		{	printf("%d", i);
			j = i;
			goto upto;
	}	}
	return;
	for (w = 0; w < range; w++)
	for (x = 0; x < 8; x++, i++)
	{
upto:		if (!(X[w] & (1<<x)))
		{	if (i-1 == j)
				printf(", ");
			else
				printf("-%d, ", i-1);
			goto from;
	}	}
	if (j >= 0 && j != 255)
		printf("-255");
}

void
dumpranges(void)
{	Vr_Ptr *tmp;
	printf("\nValues assigned within ");
	printf("interval [0..255]:\n");
	for (tmp = ranges; tmp; tmp = tmp->nxt)
	{	printf("\t%s\t: ", tmp->nm);
		dumpval(tmp->vals, BYTESIZE);
		printf("\n");
	}
}
#endif

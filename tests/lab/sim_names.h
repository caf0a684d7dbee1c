/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libfarkv again, for a program that also contains the server: names that both
 * have, and functions that the simulation replaces. Included before everything.
 */
#ifndef TESTS_LAB_SIM_NAMES_H
#define TESTS_LAB_SIM_NAMES_H

#define session_free client_session_free

#define connect_open sim_connect_open
#define channel_verbs_ctrl sim_channel_link
#define pthread_cond_timedwait sim_cond_timedwait
#define nanosleep sim_nanosleep

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/** verify_file.h - kvserver --verify-file: whether a store in files is whole, without serving it.
 */
#ifndef SERVER_LOOP_VERIFY_FILE_H
#define SERVER_LOOP_VERIFY_FILE_H

#include "serve.h"

/**
 * Look at the store of cfg->verify_file as a server that adopts it does with --verify, and print
 * its keys. A publication that was interrupted is finished; nothing else changes. Returns the exit
 * status; if it is not 0, err_detail() has the line. FARKV_EREFUSED and the rest as
 * region_file_open().
 */
int verify_file(const struct server_config *cfg);

#endif

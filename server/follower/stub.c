#include "config.h"
#include "follower.h"
#include "common/base/err.h"
#include <farkv.h>
int follower_start(const struct follower_order *o, struct follower *f_out){(void)o;(void)f_out;return err_set(FARKV_ESYS,"no followers yet");}
int follower_report(const struct follower *f, struct follower_report *out){(void)f;(void)out;return -1;}
void follower_stop(struct follower *f){(void)f;}

import type { Route } from '../route.ts'
import { getHealth } from './health.ts'
import { getMe, getScopes } from './me.ts'

/** Every route that is mounted. */
export const routes: readonly Route[] = [getHealth, getMe, getScopes]

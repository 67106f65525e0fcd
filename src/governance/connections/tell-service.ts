import { integrationNamed } from '../../tools/integrations.ts'
import type { Integration } from '../../tools/kit/tool.ts'
import type { Config } from '../../shared/config.ts'
import type { Db } from '../../db/schema/index.ts'
import type { Outgoing } from '../../shared/outgoing/outgoing.ts'
import type { SparseLog } from '../../shared/sparse-log.ts'
import type { Secrets } from '../sealing/secrets-backend.ts'
import { withClient } from './access-token.ts'
import type { ConnectionRow } from './connection-view.ts'
import { isReachable } from './credential.ts'
import { readKept } from './kept-credential.ts'
import { revokeToken } from './token-server.ts'

export interface Telling {
  readonly db: Db
  readonly config: Pick<Config, 'connections'>
  readonly outgoing: Outgoing
  readonly secrets: Secrets
  readonly sparseLog: SparseLog
}

/**
 * Asks the service once to revoke the token of a revoked connection. Asks only if the token came from an authorization
 * for this connection. `row` is the connection's row before the revocation. Never throws, because the connection is
 * already revoked in the database.
 *
 * When Google revokes a token, Google also revokes all other tokens that the same account has given to this
 * installation. So nothing is sent while another live connection has the same account.
 */
export async function tellService(context: Telling, row: ConnectionRow): Promise<void> {
  try {
    const declaration = integrationNamed(row.integration as Integration)
    if (declaration?.grant === undefined) return
    const owner = { organizationId: row.organization_id, connectionId: row.id }
    const kept = readKept(declaration, await context.secrets.read(owner, row))
    if (kept === null || !isReachable(context.config, declaration, kept.credential, row)) return
    const grant = declaration.grant.of(kept.credential, context.config.connections)
    if (grant.kind !== 'refresh_token' || !grant.isOurs || (await isShared(context.db, row))) return
    await revokeToken(context.outgoing, withClient(grant))
  } catch (error) {
    context.sparseLog.warn(
      'tell service',
      { err: error, organization_id: row.organization_id, connection_id: row.id },
      'a service was not told that a connection is revoked',
    )
  }
}

async function isShared(db: Db, { id, integration, account }: ConnectionRow): Promise<boolean> {
  const other = await db
    .selectFrom('connections')
    .select('id')
    .where('integration', '=', integration)
    .where('account', 'is not distinct from', account)
    .where('status', '<>', 'revoked')
    .where('id', '<>', id)
    .limit(1)
    .executeTakeFirst()
  return other !== undefined
}

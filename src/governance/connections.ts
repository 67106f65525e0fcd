import type { Kysely } from 'kysely'
import { catalog, getTool } from '../catalog/index.ts'
import type { ToolDeclaration } from '../catalog/tool.ts'
import type { Config } from '../config.ts'
import type { Context } from '../context.ts'
import type { Database } from '../db/schema/index.ts'
import type { ChainTx } from './chain-tx.ts'
import { DomainError } from './errors.ts'

/** How a tool stands in one organization. */
export interface ToolStanding {
  /** Whether what the tool needs to reach is the organization's to use; true for a tool that needs nothing. */
  readonly connected: boolean
  /** Null: the tool works there. Else one clause on why not, without names of other organizations. */
  readonly unavailable: string | null
}

/** What of the configuration a tool's standing depends on. */
export type Installation = Pick<Config['tools'], 'installationTools' | 'smtpUrl'>

/**
 * Whether a tool works in an organization, and if not why: the one answer for decisions, plans, saved workflows and the
 * list of tools. `connections` are the organization's tools of the installation.
 */
export function toolStanding(
  installation: Installation,
  connections: ReadonlySet<string>,
  tool: Pick<ToolDeclaration, 'name' | 'connection'>,
): ToolStanding {
  if (tool.connection === 'none') return { connected: true, unavailable: null }
  const connected = installation.installationTools === 'all' || connections.has(tool.name)
  if (!connected)
    return {
      connected,
      unavailable:
        `\`${tool.name}\` is not connected in this organization: who runs the installation connects it ` +
        'with `npm run connect-installation`',
    }
  const hasServer = tool.name !== 'mail_send' || installation.smtpUrl !== null
  return {
    connected,
    unavailable: hasServer ? null : `\`${tool.name}\` has no mail server in this installation: set SMTP_URL`,
  }
}

/** The code of a call to a tool that does not work in its organization. */
export const toolNotAvailable = 'tool_not_available'

/** Names of the tools of the installation. */
export const installationTools: readonly string[] = Object.values(catalog)
  .filter((tool) => (tool as ToolDeclaration).connection === 'installation')
  .map((tool) => tool.name)

/** The organization's tools of the installation. */
export async function readConnections(
  db: Kysely<Database>,
  organizationId: string,
): Promise<ReadonlySet<string>> {
  const rows = await db
    .selectFrom('installation_connections')
    .select('tool')
    .where('organization_id', '=', organizationId)
    .execute()
  return new Set(rows.map((row) => row.tool))
}

/** For an organization that the operator makes: it gets every tool of the installation, which its first entry says. */
export async function connectEverything(tx: ChainTx): Promise<{ installation_tools: string[] }> {
  await tx.trx
    .insertInto('installation_connections')
    .values(installationTools.map((tool) => ({ organization_id: tx.organizationId, tool })))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  tx.policyChanged()
  return { installation_tools: [...installationTools] }
}

/** What an operator is answered. */
export interface ConnectionsView {
  readonly organization_id: string
  readonly tools: readonly string[]
}

/**
 * What `npm run connect-installation` does: gives an organization a tool of the installation, or takes it back (commit
 * point `org.change`). It holds from the next decision on, in every process. Throws `not_found`, and `bad_request` for
 * what is no tool of the installation.
 */
export async function setConnection(
  context: Context,
  organizationId: string,
  tool: string,
  wanted: boolean,
): Promise<ConnectionsView> {
  if (getTool(tool)?.connection !== 'installation')
    throw new DomainError(
      'bad_request',
      `\`${tool}\` is no tool of the installation: one of ${installationTools.join(', ')}`,
    )
  return context.combiner.run(organizationId, 'org.change', async (tx) => {
    const changed = wanted ? await insert(tx, tool) : await remove(tx, tool)
    if (changed) {
      tx.policyChanged()
      tx.append({
        eventType: wanted ? 'connection.created' : 'connection.removed',
        action: wanted ? 'create' : 'delete',
        status: 'success',
        actor: { type: 'system', id: 'connect-installation' },
        metadata: { tool, scope: 'installation' },
      })
    }
    const tools = await readConnections(tx.trx, organizationId)
    return { organization_id: organizationId, tools: [...tools].sort() }
  })
}

async function insert(tx: ChainTx, tool: string): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx.trx
    .insertInto('installation_connections')
    .values({ organization_id: tx.organizationId, tool })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  return numInsertedOrUpdatedRows === 1n
}

async function remove(tx: ChainTx, tool: string): Promise<boolean> {
  const { numDeletedRows } = await tx.trx
    .deleteFrom('installation_connections')
    .where('organization_id', '=', tx.organizationId)
    .where('tool', '=', tool)
    .executeTakeFirstOrThrow()
  return numDeletedRows === 1n
}

import { sql } from 'kysely'
import { catalog, getTool } from '../../tools/index.ts'
import { serviceOf, type ToolDeclaration, type OwnService } from '../../tools/kit/tool.ts'
import {
  connectionExpired,
  connectionLacksScope,
  type toolNotAvailable,
} from '../../contract/tool-services.ts'
import type { Config } from '../../shared/config.ts'
import type { Changing } from '../context.ts'
import type { Db } from '../../db/schema/index.ts'
import type { ChainTx } from '../audit/chain-tx.ts'
import {
  connectedOf,
  liveConnection,
  liveRowSql,
  type CallDestination,
  type Connected,
  type LiveConnection,
  type LiveRow,
} from '../audit/connected.ts'
import { DomainError } from '../errors.ts'
import { z } from 'zod'
import { checkDefinition } from '../../contract/definition-check.ts'
import type { WorkflowDefinition } from '../../contract/definition.ts'
import { headline } from '../../policy/issues.ts'
import { sideEffectOf } from '../../policy/tool-facts.ts'

export interface ToolStanding {
  /** Also true if the tool needs none. */
  readonly connected: boolean
  /** Why it does not work, as one clause, which never names other organizations. */
  readonly unavailable: string | null
  /** The default is `tool_not_available`. */
  readonly code?: typeof toolNotAvailable | typeof connectionExpired | typeof connectionLacksScope
}

export type Installation = Pick<Config['tools'], 'installationTools' | 'smtpUrl'>

/** Decisions, plans, saved workflows and the list of tools all use this. */
export function toolStanding(
  installation: Installation,
  connections: Connected,
  tool: Pick<ToolDeclaration, 'name' | 'connection' | 'ownService'>,
  userId: string,
): ToolStanding {
  if (tool.connection === 'none') return { connected: true, unavailable: null }
  if (tool.connection !== 'installation')
    return ofIntegration(tool.name, tool.connection, liveConnection(connections, tool.connection, userId))
  const { ownService } = tool
  const own = ownService === undefined ? null : liveConnection(connections, ownService.integration, userId)
  // People may connect `ownService` in place of the installation's service. Once that has expired, the installation's
  // is not used: the call would act as another account.
  if (ownService !== undefined && own !== null) return ofIntegration(tool.name, ownService.integration, own)
  const connected = installation.installationTools === 'all' || connections.installation.has(tool.name)
  const orOwn = ownService === undefined ? '' : `, or people a service of their own ${connectIt(tool.name)}`
  if (!connected)
    return {
      connected,
      unavailable:
        `\`${tool.name}\` is not connected in this organization: the operator can connect it ` +
        `with \`npm run connect-installation\`${orOwn}`,
    }
  const hasServer = tool.name !== 'mail_send' || installation.smtpUrl !== null
  return {
    connected,
    unavailable: hasServer
      ? null
      : `\`${tool.name}\` has no mail server in this installation: set SMTP_URL, or connect a service ${connectIt(tool.name)}`,
  }
}

/** null if the call stays in the installation, or without a connection. An expired one has a destination too. */
export function toolDestination(
  { smtpUrl }: Pick<Installation, 'smtpUrl'>,
  connections: Connected,
  tool: Pick<ToolDeclaration, 'name' | 'connection' | 'ownService'>,
  userId: string,
): CallDestination | null {
  const service = serviceOf(tool)
  const live = service === null ? null : liveConnection(connections, service, userId)
  if (live !== null || tool.name !== 'mail_send' || smtpUrl === null) return live
  return { destination: mailHostOf(smtpUrl), ownHost: true }
}

export const mailHostOf = (smtpUrl: string): string => new URL(smtpUrl).hostname.toLowerCase()

function ofIntegration(tool: string, integration: string, live: LiveConnection | null): ToolStanding {
  if (live === null) return { connected: false, unavailable: notConnectedMessage(tool, integration) }
  if (live.status === 'expired')
    return { connected: false, unavailable: expiredMessage(tool, integration), code: connectionExpired }
  if (live.lacking.includes(tool))
    return { connected: true, unavailable: lacksMessage(tool, integration), code: connectionLacksScope }
  return { connected: true, unavailable: null }
}

const connectIt = (tool: string): string => `with \`POST /tools/${tool}/connect\``

export const notConnectedMessage = (tool: string, integration: string): string =>
  `\`${tool}\` has no connection to \`${integration}\`: an admin can make one for the organization, or a person for the runs that they start, ${connectIt(tool)}`

/** `rights` is empty if they are not known. */
export function lacksMessage(tool: string, integration: string, rights: readonly string[] = []): string {
  const named = rights.length === 0 ? '' : ` (${rights.map((each) => `\`${each}\``).join(', ')})`
  return `the connection of \`${tool}\` to \`${integration}\` was made without a right that it needs${named}: connect it again ${connectIt(tool)}, and grant this right`
}

export const expiredMessage = (tool: string, integration: string): string =>
  `the connection of \`${tool}\` to \`${integration}\` has expired: connect it again ${connectIt(tool)}`

/** The operator no longer allows the host, or it is not the one that was shown. */
export const elsewhereMessage = (tool: string, integration: string): string =>
  `the operator has changed the address of \`${integration}\`, or no longer names its host in CONNECTION_HOSTS: connect \`${tool}\` again ${connectIt(tool)}, or ask the operator`

export const installationTools: readonly string[] = Object.values(catalog)
  .filter((tool) => (tool as ToolDeclaration).connection === 'installation')
  .map((tool) => tool.name)

export async function readConnected(db: Db, organizationId: string, userId: string): Promise<Connected> {
  const { rows } = await sql<{ tools: string[]; live: LiveRow[] }>`
    select array(select tool from installation_connections where organization_id = ${organizationId}) as tools,
           (select coalesce(json_agg(${liveRowSql}), '[]') from connections
            where organization_id = ${organizationId} and status <> 'revoked'
              and coalesce(owner_id, ${userId}) = ${userId}) as live`.execute(db)
  const [row] = rows
  return connectedOf(row?.tools ?? [], row?.live ?? [])
}

async function readInstallationTools(db: Db, organizationId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('installation_connections')
    .select('tool')
    .where('organization_id', '=', organizationId)
    .orderBy('tool')
    .execute()
  return rows.map((row) => row.tool)
}

/** Returns the tools for the organization's first audit entry. */
export async function connectEverything(tx: ChainTx): Promise<{ installation_tools: string[] }> {
  await tx.trx
    .insertInto('installation_connections')
    .values(installationTools.map((tool) => ({ organization_id: tx.organizationId, tool })))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  tx.policyChanged()
  return { installation_tools: [...installationTools] }
}

/** The output of `npm run connect-installation`. */
export interface ConnectionsView {
  readonly organization_id: string
  readonly tools: readonly string[]
}

/** `npm run connect-installation`. Throws `not_found`, and `bad_request` if the installation has no such tool. */
export async function setConnection(
  context: Changing,
  organizationId: string,
  tool: string,
  wanted: boolean,
): Promise<ConnectionsView> {
  if (getTool(tool)?.connection !== 'installation')
    throw new DomainError(
      'bad_request',
      `\`${tool}\` is not a tool of the installation: give one of ${installationTools.join(', ')}`,
    )
  return context.combiner.run(organizationId, 'org.change', async (tx) => {
    const changed = wanted ? await insert(tx, tool) : await remove(tx, tool)
    if (changed) {
      tx.policyChanged()
      tx.append({
        eventType: wanted ? 'connection.created' : 'connection.removed',
        action: wanted ? 'create' : 'delete',
        actor: { type: 'system', id: 'connect-installation' },
        metadata: { tool, scope: 'installation' },
      })
    }
    return { organization_id: organizationId, tools: await readInstallationTools(tx.trx, organizationId) }
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

export function toolView(
  installation: Installation,
  connections: Connected,
  tool: ToolDeclaration,
  userId: string,
) {
  const { connected, unavailable } = toolStanding(installation, connections, tool, userId)
  const to = toolDestination(installation, connections, tool, userId)
  const texts = Object.fromEntries((tool.freeTexts ?? []).map((name) => [name, '']))
  return {
    name: tool.name,
    description: tool.description,
    side_effect: tool.sideEffect,
    side_effect_now: sideEffectOf(tool, texts, to, false),
    output_labels: tool.outputLabels,
    params: z.toJSONSchema(tool.params, { io: 'input', unrepresentable: 'any' }),
    output: z.toJSONSchema(tool.output, { unrepresentable: 'any' }),
    constraints: Object.keys(tool.constraints),
    categories: tool.categories,
    connected,
    destination: to?.destination ?? null,
    needs_connection: tool.connection !== 'none',
    service: serviceOf(tool),
    available: unavailable === null,
    unavailable_because: unavailable,
    risk: tool.risk,
    reversible: tool.reversible,
    repeat: tool.repeat,
    own_service: tool.ownService === undefined ? null : ownServiceView(tool.ownService),
    precondition: tool.precondition ?? null,
    timeout_seconds: tool.timeoutSeconds,
  }
}

/** Each call to a service of people's own has an idempotency key. */
const ownServiceView = ({ integration, knowsKeySeconds }: OwnService) => ({
  integration,
  repeat: 'keyed' as const,
  knows_key_seconds: knowsKeySeconds,
})

/** Throws `validation_error` for unknown tools, wrong references, cycles and the like. */
export function requireSound(definition: WorkflowDefinition): void {
  const issues = checkDefinition(definition, { get: getTool })
  if (issues.length === 0) return
  throw new DomainError(
    'validation_error',
    headline('the definition is not valid', issues),
    issues.map((issue) => ({ path: `definition.${issue.path}`, message: issue.message })),
  )
}

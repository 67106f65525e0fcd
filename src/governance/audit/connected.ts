import { sql } from 'kysely'
import type { Integration } from '../../tools/kit/tool.ts'

/** The status of a connection that was not revoked. It is `expired` if the service no longer accepts the credential. */
export type LiveStatus = 'active' | 'expired'

/** Where a call to a service goes. */
export interface CallDestination {
  /** The host, with the port if it is not the default. */
  readonly destination: string
  /** True if the host is the vendor's, or one that the operator has set for the service. */
  readonly ownHost: boolean
}

/** A connection that was not revoked. */
export interface LiveConnection extends CallDestination {
  readonly status: LiveStatus
  /** Tools that cannot use this connection. Each of them needs a right that the authorization server did not grant. */
  readonly lacking: readonly string[]
}

/** A live connection as the database returns it. `ownerId` is null for a connection of the organization. */
export type LiveRow = readonly [
  ownerId: string | null,
  integration: string,
  status: LiveStatus,
  lacking: readonly string[],
  destination: string,
  ownHost: boolean,
]

/** SQL: makes a `LiveRow` of a row of `connections`. */
export const liveRowSql = sql`json_build_array(owner_id, integration, status, lacking, destination, own_host)`

/** The connections that an organization and its members can use. */
export interface Connected {
  /** Tools that the organization may call with the connection of the whole installation. */
  readonly installation: ReadonlySet<string>
  /** Live connections of the organization and its members. `keyOf` makes the keys. */
  readonly live: ReadonlyMap<string, LiveConnection>
}

export function connectedOf(installation: readonly string[], live: readonly LiveRow[]): Connected {
  return {
    installation: new Set(installation),
    live: new Map(
      live.map(([ownerId, integration, status, lacking, destination, ownHost]) => [
        keyOf(ownerId, integration),
        { status, lacking, destination, ownHost },
      ]),
    ),
  }
}

const keyOf = (ownerId: string | null, integration: string): string => `${ownerId ?? ''} ${integration}`

/**
 * Returns the connection that a person's call uses. This is the person's own connection, even if it has expired.
 * Without an own connection, it is the organization's connection. Returns null if both are missing. The organization's
 * connection does not replace an expired own connection, because the call would then act as another account.
 */
export function liveConnection(
  { live }: Connected,
  integration: Integration,
  userId: string,
): LiveConnection | null {
  return live.get(keyOf(userId, integration)) ?? live.get(keyOf(null, integration)) ?? null
}

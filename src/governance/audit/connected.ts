import { sql } from 'kysely'

/** `expired`: the service no longer accepts the credential. */
export type LiveStatus = 'active' | 'expired'

export interface CallDestination {
  /** With the port if it is not the default. */
  readonly destination: string
  /** The vendor's, or one that the operator has set for the service. */
  readonly ownHost: boolean
}

export interface LiveConnection extends CallDestination {
  readonly status: LiveStatus
  /** Tools that need a right which the authorization server did not grant. */
  readonly lacking: readonly string[]
}

/** `ownerId` is null for a connection of the organization. */
export type LiveRow = readonly [
  ownerId: string | null,
  integration: string,
  status: LiveStatus,
  lacking: readonly string[],
  destination: string,
  ownHost: boolean,
]

export const liveRowSql = sql`json_build_array(owner_id, integration, status, lacking, destination, own_host)`

export interface Connected {
  /** Tools that may use the connection of the whole installation. */
  readonly installation: ReadonlySet<string>
  /** By `keyOf`. */
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

/** Even if expired: another would act as another account. Without an own one, the organization's; or null. */
export function liveConnection(
  { live }: Connected,
  integration: string,
  userId: string,
): LiveConnection | null {
  return live.get(keyOf(userId, integration)) ?? live.get(keyOf(null, integration)) ?? null
}

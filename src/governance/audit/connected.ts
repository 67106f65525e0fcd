import type { Integration } from '../../catalog/tool.ts'

/** A connection that was not revoked. `expired`: the service no longer accepts its credential. */
export type LiveStatus = 'active' | 'expired'

/** A connection that was not revoked. */
export interface LiveConnection {
  readonly status: LiveStatus
  /** Tools for which the authorization server did not grant a right. */
  readonly lacking: readonly string[]
}

/** A row of a live connection; `ownerId` is null for a connection of the organization. */
export type LiveRow = readonly [
  ownerId: string | null,
  integration: string,
  status: LiveStatus,
  lacking: readonly string[],
]

/** The tools of the installation, and the connections, that an organization and its members can use. */
export interface Connected {
  /** Tools of the installation that the organization may use. */
  readonly installation: ReadonlySet<string>
  /** Live connections; the key comes from `keyOf`. */
  readonly live: ReadonlyMap<string, LiveConnection>
}

export function connectedOf(installation: readonly string[], live: readonly LiveRow[]): Connected {
  return {
    installation: new Set(installation),
    live: new Map(
      live.map(([ownerId, integration, status, lacking]) => [
        keyOf(ownerId, integration),
        { status, lacking },
      ]),
    ),
  }
}

const keyOf = (ownerId: string | null, integration: string): string => `${ownerId ?? ''} ${integration}`

/**
 * The connection that a person's call uses: the person's own, else the organization's; null if there is neither. An
 * expired personal connection is not replaced by the organization's, because the call would act as another account.
 */
export function liveConnection(
  { live }: Connected,
  integration: Integration,
  userId: string,
): LiveConnection | null {
  return live.get(keyOf(userId, integration)) ?? live.get(keyOf(null, integration)) ?? null
}

import type { Integration } from '../catalog/tool.ts'

/** A connection that was not revoked. `expired`: the service no longer accepts its credential. */
export type LiveStatus = 'active' | 'expired'

/** A live connection: owner (null: the organization), integration, status. */
export type LiveConnection = readonly [ownerId: string | null, integration: string, status: LiveStatus]

/** What an organization and its members have connected. */
export interface Connected {
  /** Tools of the installation that the organization may use. */
  readonly installation: ReadonlySet<string>
  /** By `keyOf`. */
  readonly live: ReadonlyMap<string, LiveStatus>
}

export function connectedOf(installation: readonly string[], live: readonly LiveConnection[]): Connected {
  return {
    installation: new Set(installation),
    live: new Map(live.map(([ownerId, integration, status]) => [keyOf(ownerId, integration), status])),
  }
}

const keyOf = (ownerId: string | null, integration: string): string => `${ownerId ?? ''} ${integration}`

/**
 * The status of the connection that a person's call uses: their own, else the organization's; null without one. An
 * expired personal connection is not replaced by the organization's, because the call would act as another account.
 */
export function liveStatus({ live }: Connected, integration: Integration, userId: string): LiveStatus | null {
  return live.get(keyOf(userId, integration)) ?? live.get(keyOf(null, integration)) ?? null
}

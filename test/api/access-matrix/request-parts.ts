import { newId } from '../../../src/contract/ids.ts'
import { addKey, aLabelRule, aRule } from '../fixtures.ts'
import type { World } from './world.ts'

/* The parts from which valid-requests.ts builds its requests. */

/**
 * Values for the parameters in the path, and the rest of the request. An organization's `{id}` is filled in
 * automatically.
 */
export interface Filling {
  readonly ids?: Readonly<Record<string, string>>
  readonly query?: string
  readonly body?: unknown
}
export interface ValidRequest {
  /** The HTTP status of a success. */
  readonly status: number
  /** Creates the object of the request. Each call creates a new one. */
  readonly prepare: (world: World) => Promise<Filling>
  /** Undoes effects that would prevent the sender's next request. */
  readonly restore?: (world: World) => Promise<void>
}

export const of = (status: number, prepare: ValidRequest['prepare'] = async () => ({})): ValidRequest => ({
  status,
  prepare,
})
export const about = (status: number, id: (world: World) => Promise<string>, body?: unknown): ValidRequest =>
  of(status, async (world) => ({ ids: { id: await id(world) }, ...(body === undefined ? {} : { body }) }))
export const aStep = (status: number, state: 'completed' | 'unknown_outcome', body?: unknown): ValidRequest =>
  of(status, async (world) => ({ ids: { id: await world.runWithStep(state), step: 's' }, body }))
export const inMemory = (status: number): ValidRequest =>
  of(status, async (world) => ({ ids: { key: await world.memoryKey() } }))
/** Another key of the sender. It is not the key that sends the request. */
export const anApiKey = async ({ server, organizationId, sender }: World): Promise<string> =>
  (await addKey(server.context, organizationId, sender.userId, ['api_keys:*'])).id
export const aWebhookOf = (status: number, body?: object): ValidRequest =>
  of(status, async (world) => ({ ids: { webhook: await world.webhook() }, body }))
/** A rule that matches nothing, with a unique name. */
export const rule = (kind: 'rules' | 'label-rules') => ({
  ...(kind === 'rules' ? aRule : aLabelRule),
  name: newId('rule'),
  status: 'inactive',
})
export const aNewRule = (kind: 'rules' | 'label-rules', status: number, body?: () => object): ValidRequest =>
  of(status, async (world) => ({
    ids: { rule: await world.make(`/organizations/${world.organizationId}/${kind}`, rule(kind)) },
    ...(body === undefined ? {} : { body: body() }),
  }))

import { z } from 'zod'
import { freeze, unfreeze } from '../../governance/freeze.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { textField } from '../../policy/text.ts'
import { ok, route } from '../route.ts'

const body = z.strictObject({ reason: textField(500, 1) })
const frozen = z.strictObject({ frozen: z.boolean(), reason: z.string().nullable() })

const change = (verb: 'freeze' | 'unfreeze') =>
  route({
    key: `POST /organizations/{id}/${verb}`,
    summary:
      verb === 'freeze'
        ? 'Deny every call from the next decision on, of runs and agents alike'
        : 'Let the rules decide again',
    tag: 'Governance',
    body,
    responses: { 200: frozen },
    async handle({ context, caller, body: { reason }, once }) {
      const act = verb === 'freeze' ? freeze : unfreeze
      const askedAt = performance.now()
      return ok(await actOnce(once, () => act(context, caller, reason, askedAt, once)))
    },
  })

export const freezeRoutes = [change('freeze'), change('unfreeze')]

import { z } from 'zod'
import { setFreeze } from '../../governance/rules/freeze.ts'
import { actOnce } from '../../governance/idempotency.ts'
import { ok, route } from '../route.ts'
import { freezeBody } from '../schemas/governance.ts'

const frozen = z.strictObject({ frozen: z.boolean(), reason: z.string().nullable() })

const change = (verb: 'freeze' | 'unfreeze') =>
  route({
    key: `POST /organizations/{id}/${verb}`,
    summary:
      verb === 'freeze'
        ? 'Deny every call of runs and agents from the next decision on'
        : 'Let the rules decide again',
    tag: 'Governance',
    body: freezeBody,
    responses: { 200: frozen },
    async handle({ context, caller, body: { reason }, once }) {
      const askedAt = performance.now()
      const given = { reason, askedAt, once }
      return ok(await actOnce(once, () => setFreeze(context, caller, verb === 'freeze', given)))
    },
  })

export const freezeRoutes = [change('freeze'), change('unfreeze')]

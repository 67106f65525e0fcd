import { z } from 'zod'
import { isHeld, type HeldChange } from '../governance/approvals/change.ts'
import { accepted, type Answer } from './route.ts'
import { id, named } from './schemas/common.ts'

/** The answer to a change that waits for a second person. */
const changeHeld = named('HeldChange', {
  change: z.strictObject({
    id: id.describe('of the approval, whose kind is `change`'),
    status: z.literal('pending'),
    why: z.array(z.string()).describe('which part could not be shown to be as strict as now'),
    token: z
      .string()
      .optional()
      .describe('of a SCIM token: shown only this once, and valid once the change is approved'),
  }),
})

/** For the `responses` of a route, whose type does not name it: pages look for `change` in the answer. */
export const mayBeHeld = { 202: changeHeld } as object
/** For the `audit` of such a route. */
export const whenHeld = 'approval.requested'

export const unlessHeld = <Made>(made: Made | HeldChange, answer: (made: Made) => Answer): Answer =>
  isHeld(made) ? accepted(made) : answer(made)

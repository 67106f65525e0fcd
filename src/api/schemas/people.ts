import { z } from 'zod'
import { longestMailDelay } from '../../contract/mail-delay.ts'
import { nameField } from '../../policy/text.ts'
import { id, role } from './common.ts'
import { scopesInput } from './scopes.ts'

const day = 24 * 3600

/** An organization with the caller's role in it. */
export const organization = z
  .strictObject({
    id,
    name: z.string(),
    personal: z.boolean(),
    plan: z.enum(['free', 'pro', 'enterprise']),
    role,
  })
  .meta({ id: 'Organization' })

export const organizationBody = z.strictObject({ name: nameField(200) })
export const memberChanges = z.strictObject({ role })
export const slackAccountBody = z.strictObject({
  external_id: z
    .string()
    .regex(/^[UW][A-Z\d]{7,20}$/, 'must be the member id of a Slack profile, such as `U012ABCDEF`'),
  code: z
    .string()
    .regex(/^\d{8}$/, 'must be the eight digits of the code')
    .optional()
    .describe('the code that was sent to this account. Admins need none'),
})
export const invitationBody = z.strictObject({
  email: z.email().max(254),
  role: role.default('member'),
  expires_in_seconds: z
    .int()
    .min(60)
    .max(30 * day)
    .default(7 * day),
  send_mail: z.boolean().default(true),
})
export const acceptanceBody = z.strictObject({ token: z.string().min(1).max(200) })

/** Years of more than four digits are refused, because many clients cannot read them. */
const expiry = z.iso
  .datetime({ offset: true })
  .transform((text) => new Date(text))
  .refine((time) => time.getUTCFullYear() <= 9_999, 'must be before the year 10000; null means never')
  .meta({ type: 'string', format: 'date-time' })
const noScopes = 'a key without scopes can do nothing: name at least one; `GET /scopes` lists them'
const keyName = nameField(200)

export const apiKeyBody = z.strictObject({
  name: keyName,
  scopes: scopesInput.refine((scopes) => scopes.length > 0, noScopes),
  organization_id: z.string().optional(),
  expires_at: expiry.nullable().optional(),
})
export const apiKeyChanges = z.strictObject({
  name: keyName.optional(),
  scopes: scopesInput.refine((scopes) => scopes.length > 0, noScopes).optional(),
  expires_at: expiry.nullable().optional(),
  active: z.boolean().optional(),
})

export const mailPreferencesBody = z.strictObject({
  mail: z.boolean().describe('Whether you get mails about what waits for your decision.'),
  delay_seconds: z
    .int()
    .min(0)
    .max(longestMailDelay)
    .describe('A mail leaves if nobody has decided after so many seconds.'),
})

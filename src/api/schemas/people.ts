import { z } from 'zod'
import { id, role } from './common.ts'

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

import { z } from 'zod'
import { id, time } from './common.ts'

/** A workflow without its definition. */
export const workflowShape = {
  id,
  organization_id: id,
  name: z.string(),
  description: z.string(),
  version: z.int(),
  created_by: id,
  created_at: time,
  updated_at: time,
}

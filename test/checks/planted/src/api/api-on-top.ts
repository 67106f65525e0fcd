import '../activities/body.ts'

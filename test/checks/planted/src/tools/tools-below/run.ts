import '../../api/route.ts'

from django.contrib import admin

from tests.shop.models import Apikey, Book, Product, Tag

admin.site.register(Tag)
admin.site.register(Product)
admin.site.register(Book)
admin.site.register(Apikey)

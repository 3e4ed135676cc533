from modeltranslation.translator import TranslationOptions, register

from tests.projects.packages.shop.models import News, Remark


@register(News)
class NewsTranslationOptions(TranslationOptions):
    fields = ("title", "text")


@register(Remark)
class RemarkTranslationOptions(TranslationOptions):
    fields = ("text",)
